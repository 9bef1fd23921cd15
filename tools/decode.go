package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxFields bounds the fields of an event, known and unknown.
const maxFields = 256

// decodeEvent is the one decoder of calls, results, raw results and ticks. It refuses what
// two readers could read in two ways: bytes that are not UTF-8, something
// behind the object, and a field that is given twice, also in another case,
// because package encoding/json takes "ID" for "id" and the last one for all;
// and an argument that is given twice.
//
// If no more is wrong than a field, and id and session are not, the error is an
// *Error, and what could be read of the others is returned with it: there is
// somebody to answer. Any other error means that nobody is known.
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
	event, err = readable[T](data)
	if _, ok := errors.AsType[*Error](err); !ok {
		return none, err
	}
	return event, err
}

// checkFields fails if two fields of the object have the same name but for
// case, or if two of its args have exactly the same. data is one valid JSON
// object. It is on the path of every call: one pass, and no allocation for an
// ordinary event.
func checkFields(data []byte) error {
	var space, argSpace [32][]byte
	names, args := space[:0], argSpace[:0]
	var moreArgs map[string]bool // behind the first ones: looking at all for each would take too long
	depth, isName, isArgs, inArgs := 0, false, false, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '{', '[':
			depth++
			isName = true
			if depth == 2 {
				inArgs = isArgs && c == '{'
			}
		case '}', ']':
			depth--
		case ',':
			isName = true
		case ':':
			isName = false
		case '"':
			end := stringEnd(data, i)
			switch {
			case depth == 1 && isName:
				name := fieldName(data[i:end])
				for _, other := range names {
					if bytes.EqualFold(name, other) {
						return fmt.Errorf("the fields %q and %q are the same", other, name)
					}
				}
				if names = append(names, name); len(names) > maxFields {
					return fmt.Errorf("the body has more than %d fields", maxFields)
				}
				isArgs = bytes.EqualFold(name, []byte("args"))
			case depth == 2 && isName && inArgs:
				name := fieldName(data[i:end])
				twice := moreArgs[string(name)]
				for _, other := range args {
					twice = twice || bytes.Equal(name, other)
				}
				switch {
				case twice:
					return Errorf(CodeInvalidArguments, "the argument %q is given twice", Excerpt(string(name), 80))
				case len(args) < len(argSpace):
					args = append(args, name)
				case moreArgs == nil:
					moreArgs = map[string]bool{string(name): true}
				default:
					moreArgs[string(name)] = true
				}
			}
			i = end - 1
		}
	}
	return nil
}

// readable returns what can be read of the fields of a valid JSON object of
// which something is wrong, and says what; see decodeEvent.
func readable[T any](data []byte) (event T, _ error) {
	var names []string
	var fault error
	known := true // the id and the session, or that they are absent
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the brace; all of data was found valid
	for d.More() {
		token, _ := d.Token()
		name, _ := token.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return event, err
		}
		if names = append(names, name); len(names) > maxFields {
			return event, fmt.Errorf("the body has more than %d fields", maxFields)
		}
		err := readField(name, value, &event)
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

// readField sets one field of an event, or says in plain words why not.
func readField[T any](name string, value json.RawMessage, event *T) error {
	field, err := json.Marshal(map[string]json.RawMessage{name: value})
	if err != nil {
		return err
	}
	var alone T // event must not get half a value
	if err := json.Unmarshal(field, &alone); err != nil {
		return Errorf(CodeInvalidCall, "the field %q is %s; want %s", Excerpt(name, 80), Excerpt(string(value), 80), wanted(name))
	}
	if err := checkFields(field); err != nil {
		return err
	}
	return json.Unmarshal(field, event)
}

// wanted says what the value of a field of a call or raw result must be.
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

// stringEnd returns the position behind the JSON string that begins at start.
func stringEnd(data []byte, start int) int {
	for i := start + 1; i < len(data); i++ {
		quote := bytes.IndexByte(data[i:], '"')
		if quote < 0 {
			break
		}
		i += quote
		slashes := i
		for data[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			return i + 1
		}
	}
	return len(data)
}

// fieldName is the text of a JSON string.
func fieldName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var name string
		if err := json.Unmarshal(quoted, &name); err == nil {
			return []byte(name)
		}
	}
	return quoted[1 : len(quoted)-1]
}
