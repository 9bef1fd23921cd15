package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// Coerce returns the arguments in the form that a schema describes, if only the form
// differs: models write numbers as strings, strings as numbers, null for an argument
// that they omit, objects as JSON in a string, and other names for arguments. aliases
// maps those names. If nothing had to change, changed is false.
func Coerce(schema *jsonschema.Schema, aliases map[string]string, args json.RawMessage) (coerced json.RawMessage, changed bool) {
	if schema == nil {
		return args, false
	}
	var text string
	if json.Unmarshal(args, &text) == nil { // the whole object as a string
		args, changed = json.RawMessage(text), true
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil || fields == nil {
		return args, changed
	}
	changed = renameAliases(schema, aliases, fields) || changed
	for name, value := range fields {
		property := schema.Properties[name]
		switch {
		case property == nil:
		case isNull(value) && !slices.Contains(schema.Required, name) && !allowsNull(property):
			delete(fields, name)
			changed = true
		default:
			if fit, ok := coerceValue(typeOf(property), value); ok {
				fields[name], changed = fit, true
			}
		}
	}
	if !changed {
		return args, false
	}
	out, err := json.Marshal(fields)
	if err != nil { // impossible: the values were decoded
		return args, false
	}
	return out, true
}

// renameAliases gives the arguments that have an alias as their name the name of the schema. An
// alias of "" removes the argument.
func renameAliases(schema *jsonschema.Schema, aliases map[string]string, fields map[string]json.RawMessage) (changed bool) {
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		name := aliases[alias]
		value, ok := fields[alias]
		if _, isProperty := schema.Properties[alias]; isProperty || !ok {
			continue
		}
		if have := fields[name]; have == nil || isNull(have) || bytes.Equal(have, value) {
			delete(fields, alias)
			changed = true
			if name != "" {
				fields[name] = value
			}
		}
	}
	return changed
}

// allowsNull reports whether a property may be null; one without a type may be anything.
func allowsNull(property *jsonschema.Schema) bool {
	return property.Type == "" || property.Type == "null" || slices.Contains(property.Types, "null")
}

// typeOf returns the type of a property that is not null, the last one if it has several.
func typeOf(property *jsonschema.Schema) string {
	want := property.Type
	for _, t := range property.Types {
		if t != "null" {
			want = t
		}
	}
	return want
}

func isNull(value json.RawMessage) bool { return string(bytes.TrimSpace(value)) == "null" }

// coerceValue returns a value as the wanted type, if it is of another type.
func coerceValue(want string, value json.RawMessage) (json.RawMessage, bool) {
	value = bytes.TrimSpace(value)
	var text string
	isText := len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil
	if !isText {
		text = string(value)
	}
	switch want {
	case "integer":
		return integerOf(text, value)
	case "number":
		return json.RawMessage(text), isText && isNumber(text)
	case "boolean":
		return booleanOf(text, isText)
	case "string": // of a number or a boolean, or the only one of a list
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && len(list) == 1 && bytes.HasPrefix(list[0], []byte(`"`)) {
			return list[0], true
		}
		scalar := !isText && len(value) > 0 && !bytes.ContainsAny(value[:1], "{[n")
		return strconv.AppendQuote(nil, text), scalar
	case "object":
		return inside(text, '{', isText)
	case "array":
		if list, ok := inside(text, '[', isText); ok || !isText {
			return list, ok
		}
		return slices.Concat([]byte("["), value, []byte("]")), true
	}
	return nil, false
}

// integerOf returns the integer that a text or a number, such as 5.0 or 1e3, is.
func integerOf(text string, value json.RawMessage) (json.RawMessage, bool) {
	if len(text) > 25 {
		return nil, false
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() || n.Num().BitLen() > 128 { // 1e999999 has a million digits
		return nil, false
	}
	out := n.Num().String()
	return json.RawMessage(out), out != string(value)
}

// isNumber reports whether a text is a number of JSON.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && json.Valid([]byte(text))
}

// booleans are the words and numbers, beside true and false, that models write for a boolean.
var booleans = map[string]string{"yes": "true", "Yes": "true", "no": "false", "No": "false"}

func booleanOf(text string, isText bool) (json.RawMessage, bool) {
	if !isText && text != "0" && text != "1" {
		return nil, false
	}
	b, err := strconv.ParseBool(cmp.Or(booleans[text], text))
	return strconv.AppendBool(nil, b), err == nil
}

// inside returns the object or the array that a text contains.
func inside(text string, open byte, isText bool) (json.RawMessage, bool) {
	inner := bytes.TrimSpace([]byte(text))
	return inner, isText && len(inner) > 0 && inner[0] == open && json.Valid(inner)
}
