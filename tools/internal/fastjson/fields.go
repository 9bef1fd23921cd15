package fastjson

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MaxFields limits the fields of an object.
const MaxFields = 256

// DuplicateError says that the nested object of CheckFields has a name twice.
type DuplicateError struct{ Name string }

func (e *DuplicateError) Error() string { return fmt.Sprintf("%q is given twice", e.Name) }

// CheckFields fails if two fields of the object have the same name but for case. It
// returns a *DuplicateError if the object in its field nested has exactly the same
// name twice. data is one valid JSON object. CheckFields makes one pass and
// allocates nothing for an ordinary event.
func CheckFields(data []byte, nested string) error {
	var space, innerSpace [32][]byte
	names, inner := space[:0], innerSpace[:0]
	var more map[string]bool // the names after the first 32: a linear search would take too long
	depth, isName, isNested, inNested := 0, false, false, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '{', '[':
			depth++
			isName = true
			if depth == 2 {
				inNested = isNested && c == '{'
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
				if names = append(names, name); len(names) > MaxFields {
					return fmt.Errorf("the body has more than %d fields", MaxFields)
				}
				isNested = bytes.EqualFold(name, []byte(nested))
			case depth == 2 && isName && inNested:
				name := fieldName(data[i:end])
				twice := more[string(name)]
				for _, other := range inner {
					twice = twice || bytes.Equal(name, other)
				}
				switch {
				case twice:
					return &DuplicateError{string(name)}
				case len(inner) < len(innerSpace):
					inner = append(inner, name)
				case more == nil:
					more = map[string]bool{string(name): true}
				default:
					more[string(name)] = true
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
