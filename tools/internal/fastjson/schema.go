package fastjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema accepts the arguments of most tools without decoding them: an object whose
// properties have a type and no other constraint.
type Schema struct {
	properties []property
	required   uint64 // bits of properties
	open       bool   // the schema allows other properties
}

type property struct {
	name   []byte
	starts string // the bytes that a value may start with
}

// NewSchema returns the Schema of a JSON schema, or nil if that has more
// constraints.
func NewSchema(schema *jsonschema.Schema) *Schema {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil
	}
	var object struct {
		Type       string                     `json:"type"`
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
		Additional json.RawMessage            `json:"additionalProperties"`
	}
	if !hasOnly(text, "type", "required", "properties", "additionalProperties", "description", "title", "$schema") ||
		json.Unmarshal(text, &object) != nil || object.Type != "object" || len(object.Properties) > 64 {
		return nil
	}
	flat := &Schema{}
	switch string(bytes.TrimSpace(object.Additional)) {
	case "", "true", "{}":
		flat.open = true
	case "false", `{"not":{}}`:
	default:
		return nil
	}
	for name, text := range object.Properties {
		p, ok := newProperty(name, text)
		if !ok {
			return nil
		}
		flat.properties = append(flat.properties, p)
	}
	for _, name := range object.Required {
		i := flat.find([]byte(name))
		if i < 0 {
			return nil
		}
		flat.required |= 1 << i
	}
	return flat
}

func newProperty(name string, text []byte) (property, bool) {
	var fields struct {
		Type string `json:"type"`
	}
	if !hasOnly(text, "type", "description", "title") || json.Unmarshal(text, &fields) != nil {
		return property{}, false
	}
	// The first byte of a number does not show whether it is an integer.
	starts := map[string]string{"string": `"`, "boolean": "tf"}[fields.Type]
	return property{[]byte(name), starts}, true
}

func hasOnly(object []byte, names ...string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return false
	}
	for name := range fields {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

func (s *Schema) find(name []byte) int {
	for i := range s.properties {
		if bytes.Equal(s.properties[i].name, name) {
			return i
		}
	}
	return -1
}

// Accepts reports true only if args fit the schema. If it reports false, the
// validator decides. It makes one pass and allocates nothing.
func (s *Schema) Accepts(args []byte) bool {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || args[0] != '{' || !Valid(args) {
		return false
	}
	var seen uint64
	depth, isName, current := 0, false, -1
	for i := 0; i < len(args); i++ {
		c := args[i]
		if depth == 1 && current >= 0 && c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != ':' {
			if strings.IndexByte(s.properties[current].starts, c) < 0 {
				return false
			}
			current = -1
		}
		switch c {
		case '{', '[':
			depth++
			isName = depth == 1
		case '}', ']':
			depth--
		case ',':
			isName = depth == 1
		case '"':
			end := stringEnd(args, i)
			if isName {
				isName = false
				name := args[i+1 : end-1]
				current = s.find(name)
				switch {
				case bytes.IndexByte(name, '\\') >= 0:
					return false // it may be another name
				case current < 0 && !s.open:
					return false
				case current >= 0 && seen&(1<<current) != 0:
					return false // a duplicate
				case current >= 0:
					seen |= 1 << current
				}
			}
			i = end - 1
		}
	}
	return seen&s.required == s.required
}
