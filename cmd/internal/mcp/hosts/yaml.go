package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// maxYAML bounds the memory of the parser, which takes 30 times the size.
const maxYAML = 1 << 20

// parseYAML reads one document of YAML. A value with an anchor, an alias or a tag, and a
// string of several lines, is a node of the kind other.
func parseYAML(data []byte) (*node, error) {
	if len(data) > maxYAML {
		return nil, fmt.Errorf("it has more than %d bytes", maxYAML)
	}
	y := yamlTree{data: data, lines: bytes.Split(data, []byte("\n"))}
	offset := 0
	for _, line := range y.lines {
		y.offsets = append(y.offsets, offset)
		offset += len(line) + 1
	}
	dec, document := yaml.NewDecoder(bytes.NewReader(data)), yaml.Node{}
	err := dec.Decode(&document)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if next := dec.Decode(&yaml.Node{}); err != nil || next != io.EOF || document.Content[0].ShortTag() == "!!null" {
		return nil, errors.New("it does not have one document")
	}
	return y.node(document.Content[0])
}

type yamlTree struct {
	data    []byte
	lines   [][]byte
	offsets []int // of the lines
}

// at returns the offset of a value. The parser counts lines and runes from 1.
func (y *yamlTree) at(n *yaml.Node) (int, error) {
	line, column := n.Line-1, n.Column-1
	if line < 0 || line >= len(y.lines) || column < 0 {
		return 0, errors.New("a value is outside of the file")
	}
	runes := []rune(string(y.lines[line]))
	if column > len(runes) {
		return 0, fmt.Errorf("line %d is shorter than its value", line+1)
	}
	return y.offsets[line] + len(string(runes[:column])), nil
}

func (y *yamlTree) node(n *yaml.Node) (*node, error) {
	start, err := y.at(n)
	switch {
	case err != nil:
		return nil, err
	case n.Anchor != "", n.Style&yaml.TaggedStyle != 0, n.Kind == yaml.AliasNode:
		return &node{start: start}, nil
	case n.Kind == yaml.SequenceNode:
		return y.list(n, start)
	case n.Kind == yaml.ScalarNode:
		return y.scalar(n, start), nil
	}
	out, seen := &node{kind: table, block: n.Style&yaml.FlowStyle == 0}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		child, err := y.node(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			continue // merge keys and numbers
		}
		if seen[key.Value] {
			return nil, fmt.Errorf("line %d: the key is already defined", key.Line)
		}
		seen[key.Value] = true
		if child.lead, err = y.at(key); err != nil {
			return nil, err
		}
		child.name, child.key = child.lead, key.Value
		out.children = append(out.children, child)
	}
	return out, nil
}

// list returns the node of a list, or one of the kind other if its places are not certain: the parser
// does not say where dashes and the last bracket are.
func (y *yamlTree) list(n *yaml.Node, start int) (*node, error) {
	out := &node{kind: list, block: n.Style&yaml.FlowStyle == 0, start: start, end: start + 1}
	for _, value := range n.Content {
		item, err := y.node(value)
		if err != nil {
			return nil, err
		}
		if item.lead = item.start; out.block {
			item.lead = bytes.LastIndexByte(y.data[:item.start], '-')
			if item.lead < start || len(bytes.TrimSpace(y.data[item.lead+1:item.start])) > 0 {
				return &node{start: start}, nil
			}
		}
		out.end = item.end
		out.children = append(out.children, item)
	}
	if !out.block {
		end := closing.FindIndex(y.data[out.end:])
		if end == nil {
			return &node{start: start}, nil
		}
		out.end += end[1]
	}
	return out, nil
}

var (
	quoted  = lazyregexp.New(`^(?:"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\n]|'')*')`)
	closing = lazyregexp.New(`^(?:[\s,]|\s#.*\n)*\]`)
)

// scalar returns the node of a scalar, which is text if it is a string. It compares the string with
// the file, because one of several lines is not as in the file.
func (y *yamlTree) scalar(n *yaml.Node, start int) *node {
	rest, length := y.data[start:], len(n.Value)
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		length = len(quoted.Find(rest))
	} else if !bytes.HasPrefix(rest, []byte(n.Value)) {
		length = 0
	}
	out := &node{start: start, end: start + length}
	if length > 0 && n.ShortTag() == "!!str" {
		out.kind, out.text = text, n.Value
	}
	return out
}
