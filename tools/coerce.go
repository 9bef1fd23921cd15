package tools

import (
	"bytes"
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
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		name := aliases[alias]
		if _, ok := schema.Properties[alias]; ok {
			continue
		}
		if value, ok := fields[alias]; ok && (fields[name] == nil || isNull(fields[name]) || bytes.Equal(fields[name], value)) {
			delete(fields, alias)
			if changed = true; name != "" {
				fields[name] = value
			}
		}
	}
	for name, value := range fields {
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		if isNull(value) && !slices.Contains(schema.Required, name) && property.Type != "null" && !slices.Contains(property.Types, "null") && property.Type != "" {
			delete(fields, name)
			changed = true
			continue
		}
		want := property.Type
		for _, t := range property.Types {
			if t != "null" {
				want = t
			}
		}
		if fit, ok := coerceValue(want, value); ok {
			fields[name], changed = fit, true
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

func isNull(value json.RawMessage) bool { return string(bytes.TrimSpace(value)) == "null" }

// coerceValue returns a value as the wanted type, if it is of another type.
func coerceValue(want string, value json.RawMessage) (json.RawMessage, bool) {
	value = bytes.TrimSpace(value)
	var text string
	isText := len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil
	switch want {
	case "integer", "number":
		if !isText {
			text = string(value)
		}
		if want == "integer" {
			n, ok := new(big.Rat).SetString(text)
			if !ok || len(text) > 25 || !n.IsInt() || string(value) == n.Num().String() {
				return nil, false
			}
			return json.RawMessage(n.Num().String()), true
		}
		number := json.RawMessage(text)
		return number, isText && json.Valid(number) && text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9')
	case "boolean":
		if !isText && (string(value) == "1" || string(value) == "0") {
			text, isText = string(value), true
		}
		switch text {
		case "yes", "Yes":
			text = "true"
		case "no", "No":
			text = "false"
		}
		b, err := strconv.ParseBool(text)
		return strconv.AppendBool(nil, b), isText && err == nil
	case "string":
		if isText || len(value) == 0 || value[0] == '{' || value[0] == '[' || value[0] == 'n' {
			return nil, false
		}
		return strconv.AppendQuote(nil, string(value)), true
	case "object", "array":
		inner := bytes.TrimSpace([]byte(text))
		open := map[string]byte{"object": '{', "array": '['}[want]
		return inner, isText && len(inner) > 0 && inner[0] == open && json.Valid(inner)
	}
	return nil, false
}
