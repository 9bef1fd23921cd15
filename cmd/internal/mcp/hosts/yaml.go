package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxYAML bounds the time of the parser, which grows with the square of the depth.
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
	// The parser counts \r\n as two lines.
	file, err := parser.ParseBytes(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), 0)
	if err != nil {
		message, _, _ := strings.Cut(err.Error(), "\n") // then follows a part of the file
		return nil, errors.New(message)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, errors.New("it does not have one document")
	}
	return y.node(file.Docs[0].Body)
}

type yamlTree struct {
	data    []byte
	lines   [][]byte
	offsets []int // of the lines
}

// at returns the offset of a token. The parser counts lines and runes from 1; its own
// offsets leave out parts of comments.
func (y *yamlTree) at(t *token.Token) (int, error) {
	line, column := t.Position.Line-1, t.Position.Column-1
	if line < 0 || line >= len(y.lines) || column < 0 {
		return 0, errors.New("a value is outside of the file")
	}
	runes := []rune(string(y.lines[line]))
	if column > len(runes) {
		return 0, fmt.Errorf("line %d is shorter than its value", line+1)
	}
	return y.offsets[line] + len(string(runes[:column])), nil
}

func (y *yamlTree) node(n ast.Node) (*node, error) {
	switch v := n.(type) {
	case *ast.MappingNode:
		out := &node{kind: table, block: !v.IsFlowStyle}
		for _, m := range v.Values {
			child, err := y.node(m.Value)
			if err != nil {
				return nil, err
			}
			key, ok := m.Key.(*ast.StringNode)
			if !ok {
				continue // merge keys and numbers
			}
			if child.lead, err = y.at(key.GetToken()); err != nil {
				return nil, err
			}
			child.name, child.key = child.lead, key.Value
			out.children = append(out.children, child)
		}
		return out, nil
	case *ast.SequenceNode:
		return y.list(v)
	case *ast.StringNode:
		return y.text(v)
	}
	return &node{}, nil
}

func (y *yamlTree) list(v *ast.SequenceNode) (*node, error) {
	start, err := y.at(v.Start)
	if err != nil {
		return nil, err
	}
	out := &node{kind: list, block: !v.IsFlowStyle, start: start}
	for i, value := range v.Values {
		item, err := y.node(value)
		if err != nil {
			return nil, err
		}
		if item.lead = item.start; out.block {
			if item.lead, err = y.at(v.Entries[i].Start); err != nil {
				return nil, err
			}
		}
		out.end = item.end
		out.children = append(out.children, item)
	}
	if v.IsFlowStyle {
		end, err := y.at(v.End)
		if err != nil {
			return nil, err
		}
		out.end = end + 1
	}
	return out, nil
}

var quoted = regexp.MustCompile(`^(?:"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\n]|'')*')`)

// text returns the node of a string. It compares the string with the file, because the
// positions of the parser are not certain.
func (y *yamlTree) text(v *ast.StringNode) (*node, error) {
	start, err := y.at(v.GetToken())
	if err != nil {
		return nil, err
	}
	rest, length := y.data[start:], len(v.Value)
	if t := v.GetToken().Type; t == token.DoubleQuoteType || t == token.SingleQuoteType {
		length = len(quoted.Find(rest))
	} else if !bytes.HasPrefix(rest, []byte(v.Value)) {
		length = 0
	}
	if length == 0 {
		return &node{start: start}, nil
	}
	return &node{kind: text, start: start, end: start + length, text: v.Value}, nil
}
