package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// maxConditions is how much of the conditions of a schema the description of its tool has, in characters.
const maxConditions = 2000

// forModels returns the description and the schema of a tool as providers accept them. They reject each request with a tool whose schema
// is no object, or has conditions such as anyOf beside its properties, as those of some MCP servers. So the properties of the conditions are
// optional ones, and the description has the conditions: who runs the tool checks them.
func forModels(def tools.Definition) (description string, schema json.RawMessage, err error) {
	flat := jsonschema.Schema{Type: "object"}
	if def.Parameters != nil {
		flat = *def.Parameters
	}
	if len(flat.Types) == 0 {
		flat.Type = cmp.Or(flat.Type, "object")
	}
	conditions := &jsonschema.Schema{AllOf: flat.AllOf, AnyOf: flat.AnyOf, OneOf: flat.OneOf, Not: flat.Not, Enum: flat.Enum}
	text, err := jsonform.Encode(conditions)
	if err != nil {
		return "", nil, err
	}
	if description = def.Description; string(text) != "{}" && string(text) != "true" {
		description = strings.TrimSpace(fmt.Sprintf("%s\nThe arguments also match the JSON Schema %s", description, tools.Excerpt(string(text), maxConditions)))
		flat.AllOf, flat.AnyOf, flat.OneOf, flat.Not, flat.Enum = nil, nil, nil, nil, nil
		flat.Properties = maps.Clone(flat.Properties)
		if flat.Properties == nil {
			flat.Properties = map[string]*jsonschema.Schema{}
		}
		addProperties(flat.Properties, conditions, def.Parameters, 0)
	}
	schema, err = jsonform.Encode(&flat)
	return description, schema, err
}

// addProperties adds the properties of conditions within the schema root.
func addProperties(properties map[string]*jsonschema.Schema, conditions, root *jsonschema.Schema, depth int) {
	if depth == 10 { // it may contain itself
		return
	}
	for _, condition := range slices.Concat(conditions.AllOf, conditions.AnyOf, conditions.OneOf) {
		if name := strings.TrimPrefix(condition.Ref, "#/$defs/"); root.Defs[name] != nil {
			condition = root.Defs[name]
		} else if name := strings.TrimPrefix(condition.Ref, "#/definitions/"); root.Definitions[name] != nil {
			condition = root.Definitions[name]
		}
		for name, property := range condition.Properties {
			if properties[name] == nil {
				properties[name] = property
			}
		}
		addProperties(properties, condition, root, depth+1)
	}
}
