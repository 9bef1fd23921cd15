package tools

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// plainSchema accepts the arguments of most tools without decoding them, which takes
// longer than the rest of a short call: an object whose properties have a type and no
// other constraint.
type plainSchema struct {
	kinds    map[string]string // for each property, the kinds of values that fit
	required []string
	open     bool // the schema allows other properties
}

// newPlainSchema returns the plainSchema of a JSON schema, or nil if that has more
// constraints.
func newPlainSchema(schema *jsonschema.Schema) *plainSchema {
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
		json.Unmarshal(text, &object) != nil || object.Type != "object" {
		return nil
	}
	plain := &plainSchema{kinds: map[string]string{}, required: object.Required}
	switch string(object.Additional) {
	case "", "true", "{}":
		plain.open = true
	case "false", `{"not":{}}`:
	default:
		return nil
	}
	for name, text := range object.Properties {
		var property struct {
			Type string `json:"type"`
		}
		if !hasOnly(text, "type", "description", "title") || json.Unmarshal(text, &property) != nil {
			return nil
		}
		// The first byte of a number does not show whether it is an integer.
		plain.kinds[name] = map[string]string{"string": `"`, "boolean": "tf"}[property.Type]
	}
	return plain
}

func hasOnly(object []byte, names ...string) bool {
	fields, err := fieldsOf(object)
	return err == nil && !slices.ContainsFunc(fields, func(f field) bool { return !slices.Contains(names, f.name) })
}

// accepts reports true only if args fit the schema. If it reports false, the validator
// decides.
func (s *plainSchema) accepts(args []byte) bool {
	fields, err := fieldsOf(args)
	if err != nil {
		return false
	}
	for i, f := range fields {
		kinds, known := s.kinds[f.name]
		fits := strings.IndexByte(kinds, byte(f.value.Kind())) >= 0
		if known && !fits || !known && !s.open || slices.ContainsFunc(fields[:i], f.sameName) {
			return false
		}
	}
	return !slices.ContainsFunc(s.required, func(name string) bool {
		return !slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
	})
}
