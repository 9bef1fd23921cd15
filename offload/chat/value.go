package chat

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
)

// The functions of this file find values without decoding them. All texts are
// normalized JSON: valid and without white space.

// span is a part of a text.
type span struct{ start, end int }

func (s span) of(text string) string { return text[s.start:s.end] }

// members yields the values of an array or an object, and the keys of an object, with their
// quotes.
func members(text string) iter.Seq2[string, span] {
	return func(yield func(string, span) bool) {
		dec := jsontext.NewDecoder(strings.NewReader(text), jsonread.Lenient...)
		_, _ = dec.ReadToken() // the text is valid
		for dec.PeekKind() != ']' && dec.PeekKind() != '}' {
			key := ""
			if text[0] == '{' {
				quoted, _ := dec.ReadValue()
				key = string(quoted)
			}
			start := int(dec.InputOffset())
			if text[start] == ',' || text[start] == ':' {
				start++
			}
			_ = dec.SkipValue()
			if !yield(key, span{start, int(dec.InputOffset())}) {
				return
			}
		}
	}
}

// pick returns the values of the named fields of an object; those of absent ones are not in the
// map. A duplicate of a named field is an error, because readers disagree about which of the two counts.
func pick(object string, names ...string) (map[string]span, error) {
	found := map[string]span{}
	for key, value := range members(object) {
		name := key[1 : len(key)-1]
		if !slices.Contains(names, name) {
			continue
		}
		if _, twice := found[name]; twice {
			return nil, fmt.Errorf("the field %q occurs twice", name)
		}
		found[name] = value
	}
	return found, nil
}

// kindOf returns the type of a value for an error message.
func kindOf(value string) string {
	if value == "" {
		return "nothing"
	}
	return jsonread.TypeOf(jsontext.Kind(value[0]))
}

// Bounds of indented text: this many times the compact text, plus this many bytes.
// Only hostile text exceeds them.
const (
	maxIndentFactor = 64
	maxIndentExtra  = 1 << 20
)

// indent returns value like JSON.stringify(value, null, 2), or value itself if that
// would exceed the bounds.
func indent(value string) string {
	if indentedSize(value) > maxIndentFactor*len(value)+maxIndentExtra {
		return value
	}
	dst := jsontext.Value(value)
	if err := dst.Indent(jsontext.WithIndent("  ")); err != nil {
		panic(fmt.Sprintf("chat: indent of JSON that was checked before: %v", err))
	}
	return string(dst)
}

// indentedSize returns an upper bound of the length of the indented value.
func indentedSize(value string) int {
	size, depth, inString := len(value), 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '[' || c == '{':
			depth++
			size += 1 + 2*depth
		case c == ']' || c == '}':
			depth--
			size += 1 + 2*depth
		case c == ',':
			size += 1 + 2*depth
		case c == ':':
			size++
		}
	}
	return size
}
