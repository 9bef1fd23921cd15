package tools

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// mismatch says which argument is null, of another type than its schema wants, or unknown, and
// what to do. It returns "" if it finds no such argument.
func mismatch(schema *jsonschema.Schema, args map[string]any) string {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		property := schema.Properties[name]
		if property == nil {
			unknown = append(unknown, Excerpt(name, 80))
			continue
		}
		want := property.Types
		if property.Type != "" {
			want = []string{property.Type}
		}
		value := args[name]
		if len(want) == 0 || fitsType(value, want) {
			continue
		}
		kinds := slices.DeleteFunc(slices.Clone(want), func(t string) bool { return t == "null" })
		text := fmt.Sprintf("the argument %q is of the type %q", name, typeName(value))
		switch required := slices.Contains(schema.Required, name); {
		case value == nil && required:
			text = fmt.Sprintf("the argument %q is required, but it is null", name)
		case value == nil:
			text = fmt.Sprintf("the argument %q is null; omit it, or give a value", name)
		}
		return text + fmt.Sprintf("; want %q", strings.Join(kinds, " or "))
	}
	if others := schema.AdditionalProperties; others != nil && others.Not != nil && len(unknown) > 0 && len(schema.Properties) > 0 { // false
		known := slices.Sorted(maps.Keys(schema.Properties))
		return fmt.Sprintf("unexpected arguments %q%s; known are %s", unknown, DidYouMean(unknown[0], known), strings.Join(known, ", "))
	}
	return ""
}

func fitsType(value any, want []string) bool {
	is := typeName(value)
	if slices.Contains(want, is) {
		return true
	}
	number, ok := value.(float64)
	return ok && slices.Contains(want, "integer") && number == math.Trunc(number)
}

// typeName returns the type of a decoded JSON value.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}
