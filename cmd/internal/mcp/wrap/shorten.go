package wrap

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// noticeKey is the member that says that a structured content is not complete.
const noticeKey = "_offloaded"

// shortSizes are the sizes that shorten tries, the largest first.
var shortSizes = []shortSize{{20, 400, 60}, {5, 200, 40}, {2, 80, 40}, {1, 40, 30}, {0, 20, 30}}

type shortSize struct {
	items int // of an array
	chars int // of a string
	keys  int // of an object
}

// maxShort is the longest short form, in bytes.
const maxShort = 8000

// shorten returns a short form of a value: whole elements of its arrays, and the
// beginnings of its strings. An object has the notice as a member if the schema allows one.
// It is nil if the schema accepts no short form.
func shorten(whole json.RawMessage, notice string, accepts func(json.RawMessage) bool) json.RawMessage {
	for _, own := range []bool{true, false} {
		if own && wire.Kind(whole) != '{' {
			continue
		}
		for _, size := range shortSizes {
			short := size.value(whole, 0)
			if own {
				short = append(wire.Object{{Name: noticeKey, Value: wire.JSON(notice)}}, wire.ObjectOf(short)...).Text()
			}
			if len(short) <= maxShort && accepts(short) {
				return short
			}
		}
	}
	return nil
}

// validator returns a function that reports whether the schema accepts a value. A
// schema that cannot be read accepts all: then clients cannot read it, either.
func validator(raw json.RawMessage) func(json.RawMessage) bool {
	all := func(json.RawMessage) bool { return true }
	var schema jsonschema.Schema
	if len(raw) == 0 || json.Unmarshal(raw, &schema) != nil {
		return all
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return all
	}
	return func(data json.RawMessage) bool {
		var v any
		return json.Unmarshal(data, &v) == nil && resolved.Validate(v) == nil
	}
}

// value returns the short form of a value.
func (s shortSize) value(raw json.RawMessage, depth int) json.RawMessage {
	switch kind := wire.Kind(raw); {
	case depth > 20:
		return json.RawMessage("null")
	case kind == '{':
		var short wire.Object
		for name, value := range wire.Members(raw) {
			if len(short) == s.keys { // a large map; if the rest is required, the schema says so
				break
			}
			short = append(short, wire.Member{Name: name, Value: s.value(value, depth+1)})
		}
		return short.Text()
	case kind == '[':
		var short []json.RawMessage
		for element := range wire.Elements(raw) {
			if len(short) == s.items {
				break
			}
			short = append(short, s.value(element, depth+1))
		}
		return wire.Array(short)
	case kind == '"':
		text, _ := wire.Text(raw)
		if chars := []rune(text); len(chars) > s.chars {
			return wire.JSON(string(chars[:s.chars]) + "…")
		}
	}
	return raw
}
