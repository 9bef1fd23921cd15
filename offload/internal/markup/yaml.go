package markup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

func (w *writer) yaml(text []byte) error {
	var documents []*yaml.Node
	nested := false
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		document := &yaml.Node{}
		err := dec.Decode(document)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		root := document.Content[0]
		switch {
		case root.ShortTag() == "!!null": // nothing between two lines
			continue
		case root.Kind == yaml.ScalarNode: // as Markdown behind its front matter
			return errors.New("it has text that is no document")
		}
		nested = nested || root.Kind == yaml.MappingNode && len(root.Content) > 2
		for _, n := range root.Content {
			nested = nested || n.Kind != yaml.ScalarNode
		}
		documents = append(documents, root)
	}
	switch {
	case !nested: // as one line of a log, or a list of Markdown, which are YAML by chance
		return errors.New("it has no structure")
	case len(documents) == 1:
		w.node(documents[0], 0)
	default:
		w.node(&yaml.Node{Kind: yaml.SequenceNode, Content: documents}, 0)
	}
	return nil
}

func (w *writer) node(n *yaml.Node, depth int) {
	if !w.enter(depth) {
		return
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		plain := *n
		plain.Tag = ""
		w.put(jsontext.BeginObject)
		w.string(n.Tag)
		w.node(&plain, depth+1)
		w.put(jsontext.EndObject)
		return
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.node(n.Alias, depth+1)
		return
	case yaml.SequenceNode:
		w.put(jsontext.BeginArray)
		for _, element := range n.Content {
			w.node(element, depth+1)
		}
		w.put(jsontext.EndArray)
		return
	case yaml.MappingNode:
		w.put(jsontext.BeginObject)
		w.members(n, depth, map[string]bool{})
		w.put(jsontext.EndObject)
		return
	}
	switch n.ShortTag() {
	case "!!null":
		w.put(jsontext.Null)
	case "!!bool":
		w.put(jsontext.Bool(strings.EqualFold(n.Value, "true")))
	case "!!int", "!!float":
		w.number(n.Value)
	default:
		w.string(n.Value)
	}
}

// members writes the members of a mapping, and behind them those of the mappings that it merges
// with "<<", except for the keys in seen.
func (w *writer) members(n *yaml.Node, depth int, seen map[string]bool) {
	if !w.enter(depth) {
		return
	}
	var merged []*yaml.Node
	switch own := map[string]bool{}; n.Kind {
	case yaml.AliasNode:
		merged = []*yaml.Node{n.Alias}
	case yaml.SequenceNode:
		merged = n.Content
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.ShortTag() == "!!merge" {
				merged = append(merged, value)
				continue
			}
			if key.Kind != yaml.ScalarNode || own[key.Value] {
				w.err = fmt.Errorf("line %d has a key again, or one that is no text", key.Line)
				return
			}
			if own[key.Value] = true; !seen[key.Value] {
				seen[key.Value] = true
				w.string(key.Value)
				w.node(value, depth+1)
			}
		}
	}
	for _, m := range merged {
		w.members(m, depth+1, seen)
	}
}
