package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// decoder returns a decoder that accepts what encoding/json accepts.
func decoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

var errInvalid = errors.New("invalid JSON, or nested too deeply")

func isValid(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Members returns the members of an object; none if raw is not an object.
func Members(raw json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		d := decoder(raw)
		if start, err := d.ReadToken(); err != nil || start.Kind() != '{' {
			return
		}
		for d.PeekKind() == '"' {
			token, err := d.ReadToken()
			if err != nil {
				return
			}
			name := token.String()
			if value, err := d.ReadValue(); err != nil || !yield(name, json.RawMessage(value)) {
				return
			}
		}
	}
}

// Elements returns the elements of an array; none if raw is not an array.
func Elements(raw json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		d := decoder(raw)
		if start, err := d.ReadToken(); err != nil || start.Kind() != '[' {
			return
		}
		for d.PeekKind() != ']' {
			if value, err := d.ReadValue(); err != nil || !yield(json.RawMessage(value)) {
				return
			}
		}
	}
}

// Array returns an array of elements.
func Array(elements []json.RawMessage) json.RawMessage {
	var raws [][]byte
	for _, e := range elements {
		raws = append(raws, e)
	}
	return append(append([]byte{'['}, bytes.Join(raws, []byte{','})...), ']')
}

// Text returns the text of a JSON string.
func Text(raw json.RawMessage) (string, bool) {
	if Kind(raw) != '"' {
		return "", false
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // the error is for bytes that are not UTF-8, which it replaces
	return string(text), true
}

// Kind is the first byte of a value: one of { [ " t f n, a digit or '-'. It is 0 if there
// is no value.
func Kind(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// Object is the members of an object in their order.
type Object []Member

// Member is a member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// ObjectOf returns the members of an object; none if raw is not an object.
func ObjectOf(raw json.RawMessage) (o Object) {
	for name, value := range Members(raw) {
		o = append(o, Member{name, value})
	}
	return o
}

// Get returns the value of a member; nil if there is none.
func (o Object) Get(name string) json.RawMessage {
	for _, m := range o {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// With returns the object with another value of a member.
func (o Object) With(name string, value json.RawMessage) Object {
	changed := append(make(Object, 0, len(o)+1), o...)
	for i := range changed {
		if changed[i].Name == name {
			changed[i].Value = value
			return changed
		}
	}
	return append(changed, Member{name, value})
}

// Text returns the JSON of the object.
func (o Object) Text() json.RawMessage {
	size := 2
	for _, m := range o {
		size += len(m.Name) + len(m.Value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, m.Name) // the error is for names that are not UTF-8
		out = append(append(out, ':'), m.Value...)
	}
	return append(out, '}')
}

// Get returns the value at the end of a path of members; nil if there is none.
func Get(raw json.RawMessage, path ...string) json.RawMessage {
	for _, name := range path {
		var found json.RawMessage
		for member, value := range Members(raw) {
			if member == name {
				found = value
				break
			}
		}
		raw = found
	}
	return raw
}

// Set returns an object with another value at the end of a path of members. It adds what
// the path lacks.
func Set(raw, value json.RawMessage, path ...string) json.RawMessage {
	if len(path) == 0 {
		return value
	}
	o := ObjectOf(raw)
	return o.With(path[0], Set(o.Get(path[0]), value, path[1:]...)).Text()
}

// JSON returns the JSON of a value of this program, without the escapes for HTML.
func JSON(v any) json.RawMessage {
	data, err := jsonform.Encode(v)
	if err != nil {
		panic(err) // a type that has no JSON
	}
	return data
}
