package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools/internal/fastjson"
)

// decodePlainCall decodes a call event whose fields are args and strings without
// escapes, as those of nearly all calls, four times as fast as decodeEvent.
func decodePlainCall(data []byte) (Call, bool) {
	var call Call
	args, ok := fastjson.Strings(data, "args", func(name, value string) bool {
		switch name {
		case "id":
			call.ID = value
		case "session":
			call.Session = value
		case "tool":
			call.Tool = value
		case "channel":
			call.Channel = value
		case "chat_id":
			call.ChatID = value
		case "agent_id":
			call.AgentID = value
		case "task_id":
			call.TaskID = value
		case "action":
			call.Action = value
		default:
			return false
		}
		return true
	})
	if !ok {
		return Call{}, false
	}
	call.Args = args
	return call, true
}

// decodeEvent is the one decoder of calls, results, raw results and ticks. It refuses
// what two readers could read in two ways: bytes that are not UTF-8, data after the
// object, a duplicate argument, and a duplicate field, also in another case (package
// encoding/json takes "ID" for "id" and uses the last one).
//
// If only some fields are wrong, but not id and session, the error is an *Error and
// comes with the other fields: the caller can be answered. After any other error,
// the caller is unknown.
func decodeEvent[T any](data []byte) (T, error) {
	var event, none T
	if !utf8.Valid(data) {
		return none, fmt.Errorf("the body is not valid UTF-8")
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return none, fmt.Errorf("the body is not a JSON object")
	}
	err := json.Unmarshal(data, &event)
	if err == nil {
		err = checkFields(data)
	}
	if err == nil {
		return event, nil
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return none, err
	}
	event, err = decodeFields[T](data)
	if _, ok := errors.AsType[*Error](err); !ok {
		return none, err
	}
	return event, err
}

// DecodeStrict decodes a JSON object into v. As the decoders of events do, it refuses bytes
// that are not UTF-8, data after the object, and a field that is given twice, also in
// another case.
func DecodeStrict(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not valid UTF-8")
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("it is not a JSON object")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return fastjson.CheckFields(data, "")
}

func checkFields(data []byte) error {
	err := fastjson.CheckFields(data, "args")
	if duplicate, ok := errors.AsType[*fastjson.DuplicateError](err); ok {
		return Errorf(CodeInvalidArguments, "the argument %q is given twice", Excerpt(duplicate.Name, 80))
	}
	return err
}

// decodeFields decodes a valid JSON object field by field; see decodeEvent.
func decodeFields[T any](data []byte) (event T, _ error) {
	var names []string
	var fault error
	known := true // the id and the session are valid or absent
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the brace; data is valid
	for d.More() {
		token, _ := d.Token()
		name, _ := token.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return event, err
		}
		if names = append(names, name); len(names) > fastjson.MaxFields {
			return event, fmt.Errorf("the body has more than %d fields", fastjson.MaxFields)
		}
		err := setField(name, value, &event)
		for _, other := range names[:len(names)-1] {
			if strings.EqualFold(name, other) {
				err = Errorf(CodeInvalidCall, "the fields %q and %q are the same", Excerpt(other, 80), Excerpt(name, 80))
			}
		}
		if err != nil && (strings.EqualFold(name, "id") || strings.EqualFold(name, "session")) {
			known, fault = false, err
		}
		if fault == nil {
			fault = err
		}
	}
	if !known {
		return event, errors.New(fault.Error()) // not an *Error
	}
	return event, fault
}

// setField decodes one field of an event.
func setField[T any](name string, value json.RawMessage, event *T) error {
	field, err := json.Marshal(map[string]json.RawMessage{name: value})
	if err != nil {
		return err
	}
	var scratch T // event must not get half a value
	if err := json.Unmarshal(field, &scratch); err != nil {
		return Errorf(CodeInvalidCall, "the field %q is %s; want %s", Excerpt(name, 80), Excerpt(string(value), 80), wanted(name))
	}
	if err := json.Unmarshal(field, event); err != nil {
		return err
	}
	return checkFields(field) // arguments with a duplicate stay: the digest must be that of the client
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
