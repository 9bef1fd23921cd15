package tools

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// flatSchema accepts the arguments of most tools without decoding them: an
// object whose properties have a type and nothing more. It only ever says yes;
// the validator has the last word, and the words for what is wrong.
type flatSchema struct {
	properties []flatProperty
	required   uint64 // bits of properties
	open       bool   // other properties may be there
}

type flatProperty struct {
	name  []byte
	kinds [256]bool // by the first byte of a value
}

// flatten returns the flat form of a schema, or nil if it has more to say.
func flatten(schema *jsonschema.Schema) *flatSchema {
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
	flat := &flatSchema{}
	switch string(bytes.TrimSpace(object.Additional)) {
	case "", "true", "{}":
		flat.open = true
	case "false", `{"not":{}}`:
	default:
		return nil
	}
	for name, text := range object.Properties {
		property, ok := flattenProperty(name, text)
		if !ok {
			return nil
		}
		flat.properties = append(flat.properties, property)
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

func flattenProperty(name string, text []byte) (flatProperty, bool) {
	p := flatProperty{name: []byte(name)}
	var property struct {
		Type string `json:"type"`
	}
	if !hasOnly(text, "type", "description", "title") || json.Unmarshal(text, &property) != nil {
		return p, false
	}
	// Numbers are left to the validator: whether one is an integer does not
	// show in its first byte.
	starts := map[string]string{"string": `"`, "boolean": "tf"}[property.Type]
	for _, c := range []byte(starts) {
		p.kinds[c] = true
	}
	return p, true
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

func (f *flatSchema) find(name []byte) int {
	for i := range f.properties {
		if bytes.Equal(f.properties[i].name, name) {
			return i
		}
	}
	return -1
}

// accepts reports whether args surely fit the schema. It makes one pass and
// allocates nothing.
func (f *flatSchema) accepts(args []byte) bool {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || args[0] != '{' || !isJSON(args) {
		return false
	}
	var seen uint64
	depth, isName, property := 0, false, -1
	for i := 0; i < len(args); i++ {
		c := args[i]
		if depth == 1 && property >= 0 && c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != ':' {
			if !f.properties[property].kinds[c] {
				return false
			}
			property = -1
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
				property = f.find(name)
				switch {
				case bytes.IndexByte(name, '\\') >= 0:
					return false // it may be another name
				case property < 0 && !f.open:
					return false
				case property >= 0 && seen&(1<<property) != 0:
					return false // given twice
				case property >= 0:
					seen |= 1 << property
				}
			}
			i = end - 1
		}
	}
	return seen&f.required == f.required
}
