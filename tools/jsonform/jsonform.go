// Package jsonform writes JSON in the two forms that all of Stevedore uses: encoded
// without escapes for HTML, and canonical.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package jsonform

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Encode returns v as one line of JSON without the escapes for HTML of json.Marshal,
// which cost tokens and change the text of a model.
func Encode(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.buf.Reset()
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))), nil
}

type encoder struct {
	*json.Encoder
	buf bytes.Buffer
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.Encoder = json.NewEncoder(&e.buf)
	e.SetEscapeHTML(false)
	return e
}}

// Decode decodes the first value of data. Numbers are json.Number, which keeps their text.
func Decode(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// Canonical sorts keys, removes white space and writes strings in one way, as Encode does.
// Numbers keep their text. The order of keys is that of RFC 8785. Canonical returns data
// unchanged if it is not JSON.
func Canonical(data []byte) []byte {
	if len(bytes.TrimSpace(data)) == 0 {
		return []byte("{}")
	}
	out, err := jsontext.AppendFormat(nil, data,
		jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false), jsontext.EscapeForJS(true),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err == nil {
		return out
	}
	// encoding/json also decides what a duplicate key and half a surrogate pair mean.
	v, err := Decode(data)
	if err != nil || !json.Valid(data) { // not JSON, or more than one value
		return data
	}
	if out, err = Encode(v); err != nil {
		return data
	}
	return out
}
