package hosts

import (
	"errors"
	"strings"

	"github.com/tailscale/hujson"
)

// parseJSON reads JSON that may have comments and trailing commas.
func parseJSON(data []byte) (*node, error) {
	value, err := hujson.Parse(data)
	if err != nil {
		message, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), " literal: ")
		return nil, errors.New(message)
	}
	return jsonNode(value), nil
}

func jsonNode(v hujson.Value) *node {
	n := &node{start: v.StartOffset, end: v.EndOffset, lead: v.StartOffset}
	switch x := v.Value.(type) {
	case hujson.Literal:
		if x.Kind() == '"' {
			n.kind, n.text = text, x.String()
		}
	case *hujson.Array:
		n.kind = list
		for _, element := range x.Elements {
			n.children = append(n.children, jsonNode(element))
		}
	case *hujson.Object:
		n.kind = table
		for _, m := range x.Members {
			child := jsonNode(m.Value)
			child.lead, child.name = m.Name.StartOffset, m.Name.StartOffset
			child.key = m.Name.Value.(hujson.Literal).String()
			n.children = append(n.children, child)
		}
	}
	return n
}
