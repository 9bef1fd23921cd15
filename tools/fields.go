package tools

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxFields limits the fields of an event.
const maxFields = 256

// field is a field of a JSON object.
type field struct {
	name  string
	value jsontext.Value // a part of the object's text
}

var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(new(bytes.Buffer)) }}

// fieldsOf returns the fields of a JSON object in their order. It refuses bytes that are
// not UTF-8, data after the object, and more than maxFields fields.
func fieldsOf(data []byte) ([]field, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the body is not valid UTF-8")
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errors.New("the body is not a JSON object")
	}
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // also half a surrogate pair
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	fields := make([]field, 0, 8)
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		f := field{name: name.String()}
		if f.value, err = d.ReadValue(); err != nil {
			return nil, err
		}
		if fields = append(fields, f); len(fields) > maxFields {
			return nil, fmt.Errorf("the body has more than %d fields", maxFields)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("there is data after the JSON object")
	}
	return fields, nil
}

// sameName reports whether two fields have the same name, also in another case.
func (f field) sameName(other field) bool { return strings.EqualFold(f.name, other.name) }

// checkFields fails if a field is given twice, also in another case, or if an argument is.
func checkFields(fields []field) error {
	for i := range fields {
		if err := checkField(fields, i); err != nil {
			return err
		}
	}
	return nil
}

// checkField is checkFields for the field i.
func checkField(fields []field, i int) error {
	f := fields[i]
	if other := slices.IndexFunc(fields[:i], f.sameName); other >= 0 {
		return Errorf(CodeInvalidCall, "the fields %q and %q are the same", Excerpt(fields[other].name, 80), Excerpt(f.name, 80))
	}
	if strings.EqualFold(f.name, "args") {
		return checkArgs(f.value)
	}
	return nil
}

// checkArgs fails if an argument, or a name in an argument, is given twice.
func checkArgs(args jsontext.Value) error {
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewBuffer(args), jsontext.AllowInvalidUTF8(true))
	err := d.SkipValue()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return Errorf(CodeInvalidArguments, "the argument %q is given twice", Excerpt(syntax.JSONPointer.LastToken(), 80))
	}
	return err
}
