package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// The functions of this file find values without decoding them. All texts are
// normalized JSON: valid and without white space.

// span is a part of a text.
type span struct{ start, end int }

func (s span) of(text string) string { return text[s.start:s.end] }

// elements yields the values of an array.
func elements(array string) iter.Seq[span] {
	return func(yield func(span) bool) {
		for i := 1; i < len(array)-1; i++ { // i++ steps over the comma
			value := span{i, skip(array, i)}
			if !yield(value) {
				return
			}
			i = value.end
		}
	}
}

// fields yields the keys (with their quotes) and the values of an object.
func fields(object string) iter.Seq2[string, span] {
	return func(yield func(string, span) bool) {
		for i := 1; i < len(object)-1; i++ {
			key := span{i, skip(object, i)}
			value := span{key.end + 1, skip(object, key.end+1)}
			if !yield(key.of(object), value) {
				return
			}
			i = value.end
		}
	}
}

// skip returns the end of the value that starts at i.
func skip(text string, i int) int {
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '[', '{':
		return skipNested(text, i)
	}
	for i < len(text) && !strings.ContainsRune(",]}", rune(text[i])) {
		i++
	}
	return i
}

func skipString(text string, i int) int {
	for i++; ; i++ {
		i += strings.IndexByte(text[i:], '"')
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

func skipNested(text string, i int) int {
	for depth := 0; ; {
		switch text[i] {
		case '"':
			i = skipString(text, i)
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// pick returns the values of the named fields of an object, in the order of the names.
// An absent field has an empty span. A duplicate of a named field is an error, because
// readers disagree about which of the two counts.
func pick(object string, names ...string) ([]span, error) {
	found := make([]span, len(names))
	for key, value := range fields(object) {
		for i, name := range names {
			if key[1:len(key)-1] != name {
				continue
			}
			if found[i] != (span{}) {
				return nil, fmt.Errorf("the field %q occurs twice", name)
			}
			found[i] = value
		}
	}
	return found, nil
}

// kindOf returns the type of a value for an error message.
func kindOf(value string) string {
	if value == "" {
		return "nothing"
	}
	switch value[0] {
	case '"':
		return "a string"
	case '[':
		return "an array"
	case '{':
		return "an object"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
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
	size := indentedSize(value)
	if size > maxIndentFactor*len(value)+maxIndentExtra {
		return value
	}
	var dst bytes.Buffer
	dst.Grow(size)
	if err := json.Indent(&dst, []byte(value), "", "  "); err != nil {
		panic(fmt.Sprintf("chat: indent of JSON that was checked before: %v", err))
	}
	return dst.String()
}

// indentedSize returns an upper bound of the length of the indented value.
func indentedSize(value string) int {
	size, depth := len(value), 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			i = skipString(value, i) - 1
		case '[', '{':
			depth++
			size += 1 + 2*depth
		case ']', '}':
			depth--
			size += 1 + 2*depth
		case ',':
			size += 1 + 2*depth
		case ':':
			size++
		}
	}
	return size
}
