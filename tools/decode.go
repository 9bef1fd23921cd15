package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// setPlain sets a call from its fields if these are args and strings without escapes, as
// those of nearly all calls, three times as fast as encoding/json.
func (c *Call) setPlain(fields []field) bool {
	var call Call
	for _, f := range fields {
		var to *string
		switch f.name {
		case "args":
			if f.value.Kind() != '{' {
				return false
			}
			call.Args = bytes.Clone(f.value)
			continue
		case "id":
			to = &call.ID
		case "session":
			to = &call.Session
		case "tool":
			to = &call.Tool
		case "channel":
			to = &call.Channel
		case "chat_id":
			to = &call.ChatID
		case "agent_id":
			to = &call.AgentID
		case "task_id":
			to = &call.TaskID
		case "action":
			to = &call.Action
		default:
			return false
		}
		if f.value.Kind() != '"' || bytes.IndexByte(f.value, '\\') >= 0 {
			return false
		}
		*to = string(f.value[1 : len(f.value)-1])
	}
	*c = call
	return true
}

// decodeEvent is the one decoder of calls, results, raw results and ticks. It refuses
// what two readers could read in two ways: bytes that are not UTF-8, data after the
// object, a duplicate argument, and a duplicate field, also in another case (package
// encoding/json takes "ID" for "id" and uses the last one).
//
// If only some fields are wrong, but not id and session, the error is an *Error and
// comes with the other fields: the caller can be answered. After any other error,
// the caller is unknown.
func decodeEvent[T any](data []byte) (event T, _ error) {
	fields, err := fieldsOf(data)
	if err != nil {
		return event, err
	}
	if checkFields(fields) == nil {
		if call, ok := any(&event).(*Call); ok && call.setPlain(fields) {
			return event, nil
		}
		if json.Unmarshal(data, &event) == nil {
			return event, nil
		}
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
