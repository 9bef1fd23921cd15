package offload

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	shapeBytes = 1 << 20 // bytes of a JSON text that are read
	shapeKeys  = 24      // keys of an object that are named
	shapeDepth = 3       // nesting levels that are described
	shapeNest  = 1000    // nesting levels that are read
)

// shape describes the structure of a JSON text: keys and the types of their values,
// for arrays the first element and the number of elements. It reads at most
// shapeBytes; a "+" marks the number of an object or an array that it did not read to
// the end.
func shape(r io.Reader) (string, error) {
	dec := json.NewDecoder(io.LimitReader(r, shapeBytes))
	dec.UseNumber()
	s := shaper{dec: dec}
	text := s.value(0)
	if s.failed != nil && s.failed != io.EOF && s.failed != io.ErrUnexpectedEOF {
		if _, syntax := s.failed.(*json.SyntaxError); !syntax {
			return "", s.failed
		}
	}
	return "JSON of the shape " + tools.Excerpt(text, 2*previewRunes), nil
}

type shaper struct {
	dec    *json.Decoder
	failed error // io.EOF at shapeBytes, or bad JSON
}

func (s *shaper) token() (json.Token, bool) {
	if s.failed != nil {
		return nil, false
	}
	tok, err := s.dec.Token()
	s.failed = err
	return tok, err == nil
}

func (s *shaper) value(depth int) string {
	tok, ok := s.token()
	if !ok {
		return "..."
	}
	if depth > shapeNest {
		s.failed = io.EOF
		return "..."
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			return s.object(depth)
		}
		return s.array(depth)
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

func (s *shaper) object(depth int) string {
	var fields []string
	keys := 0
	for s.more() {
		key, ok := s.token()
		if !ok {
			break
		}
		keys++
		text := s.value(depth + 1)
		if keys <= shapeKeys && depth < shapeDepth {
			fields = append(fields, fmt.Sprintf("%s: %s", tools.Excerpt(fmt.Sprint(key), 60), text))
		}
	}
	s.token() // the closing brace
	switch {
	case depth >= shapeDepth:
		return fmt.Sprintf("{%s keys}", s.count(keys))
	case keys > shapeKeys:
		fields = append(fields, fmt.Sprintf("... %s keys in all", s.count(keys)))
	case s.failed != nil:
		fields = append(fields, "...")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (s *shaper) array(depth int) string {
	first, n := "", 0
	for s.more() {
		text := s.value(depth + 1)
		if n == 0 {
			first = text
		}
		n++
	}
	s.token() // the closing bracket
	switch {
	case n == 0 && s.failed == nil:
		return "[]"
	case depth > shapeDepth:
		return fmt.Sprintf("[%s elements]", s.count(n))
	}
	return fmt.Sprintf("[%s elements, the first: %s]", s.count(n), first)
}

func (s *shaper) more() bool { return s.failed == nil && s.dec.More() }

func (s *shaper) count(n int) string {
	if s.failed != nil {
		return fmt.Sprintf("%d+", n)
	}
	return fmt.Sprint(n)
}
