package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// maxFields bounds the fields of an event, known and unknown.
const maxFields = 256

// decodeEvent is the one decoder of calls, results, raw results and ticks. It refuses what
// two readers could read in two ways: bytes that are not UTF-8, something
// behind the object, and a field that is given twice, also in another case,
// because package encoding/json takes "ID" for "id" and the last one for all.
func decodeEvent(data []byte, v any) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("the body is not valid UTF-8")
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return fmt.Errorf("the body is not a JSON object")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return checkFields(data)
}

// checkFields fails if two fields of the object have the same name but for
// case. data is one valid JSON object. It is on the path of every call: one
// pass, and no allocation for an ordinary event.
func checkFields(data []byte) error {
	var space [32][]byte
	names := space[:0]
	depth, isName := 0, false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
			isName = true
		case '}', ']':
			depth--
		case ',':
			isName = true
		case ':':
			isName = false
		case '"':
			end := stringEnd(data, i)
			if depth == 1 && isName {
				name := fieldName(data[i:end])
				for _, other := range names {
					if bytes.EqualFold(name, other) {
						return fmt.Errorf("the fields %q and %q are the same", other, name)
					}
				}
				if names = append(names, name); len(names) > maxFields {
					return fmt.Errorf("the body has more than %d fields", maxFields)
				}
			}
			i = end - 1
		}
	}
	return nil
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
