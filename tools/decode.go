package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// decodeEvent is the one decoder of calls, results, raw results and ticks; name says which. It refuses
// what two readers could read in two ways: bytes that are not UTF-8, data after the
// object, a duplicate argument, and a duplicate field, also in another case (package
// encoding/json takes "ID" for "id" and uses the last one).
//
// If only some fields are wrong, but not id and session, the error is an *Error and
// comes with the other fields: the caller can be answered. After any other error,
// the caller is unknown.
func decodeEvent[T any](name string, data []byte) (T, error) {
	if event, ok := decodeExact[T](data); ok {
		return event, nil
	}
	event, err := decodeFields[T](data)
	if err != nil {
		err = fmt.Errorf("decode %s: %w", name, err)
	}
	return event, err
}

// exact refuses a field that the event does not have, such as one in another case, and with
// the defaults of the package what decodeEvent refuses.
var exact = jsonv2.RejectUnknownMembers(true)

// decodeExact decodes an event that has only its own fields, as nearly all events, five times
// as fast as decodeFields.
func decodeExact[T any](data []byte) (event T, ok bool) {
	ok = bytes.HasPrefix(data, []byte("{")) && jsonv2.Unmarshal(data, &event, exact) == nil
	return event, ok
}

// decodeFields decodes any event, field by field if one is wrong.
func decodeFields[T any](data []byte) (event T, _ error) {
	fields, err := fieldsOf(data)
	if err != nil {
		return event, err
	}
	if checkFields(fields) == nil && json.Unmarshal(data, &event) == nil {
		return event, nil
	}
	var none T
	event = none
	var fault error
	known := true // the id and the session are valid or absent
	for i, f := range fields {
		err := setField(f, &event)
		if err == nil { // arguments with a duplicate stay: the digest must be that of the client
			err = checkField(fields, i)
		}
		if err != nil && (strings.EqualFold(f.name, "id") || strings.EqualFold(f.name, "session")) {
			known, fault = false, err
		}
		if fault == nil {
			fault = err
		}
	}
	if !known {
		return none, errors.New(fault.Error()) // not an *Error
	}
	return event, fault
}

// DecodeStrict decodes a JSON object into v. As the decoders of events do, it refuses bytes
// that are not UTF-8, data after the object, and a field that is given twice, also in
// another case.
func DecodeStrict(data []byte, v any) error {
	fields, err := fieldsOf(data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return checkFields(fields)
}

// setField decodes one field of an event.
func setField[T any](f field, event *T) error {
	object, err := json.Marshal(map[string]json.RawMessage{f.name: json.RawMessage(f.value)})
	if err != nil {
		return err
	}
	var scratch T // event must not get half a value
	if err := json.Unmarshal(object, &scratch); err != nil {
		return Errorf(CodeInvalidCall, "the field %q is %s; want %s", Excerpt(f.name, 80), Excerpt(string(f.value), 80), wanted(f.name))
	}
	return json.Unmarshal(object, event)
}

// wanted describes the valid values of a field.
func wanted(name string) string {
	switch strings.ToLower(name) {
	case "deadline":
		return `a time such as "2026-01-02T15:04:05Z"`
	case "offload", "markdown", "silent", "is_error", "overlap":
		return "true or false"
	case "timeout_s":
		return "a whole number"
	}
	return "a string"
}
