package wrap

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// noticeKey is the member that says that a structured content is not complete.
const noticeKey = "_offloaded"

// shortSizes are the sizes that shorten tries, the largest first.
var shortSizes = []shortSize{{20, 400, 60}, {5, 200, 40}, {2, 80, 40}, {1, 40, 30}, {0, 20, 30}}

type shortSize struct {
	items int // of an array
	chars int // of a string
	keys  int // of an object
}

// maxShort is the longest short form, in bytes.
const maxShort = 8000

// shorten returns a short form of an object that the schema accepts and that says that
// it is short. A model may see nothing else of the result, so there must be a notice:
// as a member of its own, or, if the schema allows none, as an additional last element
// of an array that was cut, or at the start of a string that was cut.
func shorten(m *wire.Message, v wire.Value, rawSchema json.RawMessage, notice string) ([]byte, bool) {
	accepts := validator(rawSchema)
	for skip := -1; skip < maxSkip; skip++ {
		for _, size := range shortSizes {
			s := &shortener{m: m, size: size, notice: notice, inText: skip >= 0, skip: skip}
			s.value(v, 0)
			if s.err == nil && s.placed && len(s.out) <= maxShort && accepts(s.out) {
				return s.out, true
			}
		}
	}
	return nil, false
}

// validator returns a function that reports whether the schema accepts a value. A
// schema that cannot be read accepts all: then clients cannot read it, either.
func validator(raw json.RawMessage) func([]byte) bool {
	var schema jsonschema.Schema
	if len(raw) == 0 || json.Unmarshal(raw, &schema) != nil {
		return json.Valid
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return json.Valid
	}
	return func(data []byte) bool {
		var v any
		return json.Unmarshal(data, &v) == nil && resolved.Validate(v) == nil
	}
}

// maxSkip is how many strings of an element are tried for the notice: the schema may
// allow only some values for the first ones.
const maxSkip = 5

// shortener writes the short form of a value.
type shortener struct {
	m      *wire.Message
	size   shortSize
	notice string
	inText bool // the notice has no member of its own
	skip   int  // strings of the last element to skip
	placed bool
	marked bool // the string after left strings becomes the notice
	left   int
	out    []byte
	err    error
}

func (s *shortener) value(v wire.Value, depth int) {
	if len(s.out) > 4*maxShort || s.err != nil {
		return
	}
	switch {
	case depth > 20:
		s.out = append(s.out, "null"...)
	case v.Kind == '{':
		s.object(v, depth)
	case v.Kind == '[':
		s.array(v, depth)
	case v.Kind == '"':
		s.text(v)
	default:
		raw, err := s.m.Bytes(v, 1000)
		s.out, s.err = append(s.out, raw...), err
	}
}

func (s *shortener) object(v wire.Value, depth int) {
	s.out = append(s.out, '{')
	n := 0
	if depth == 0 && !s.inText {
		s.out = append(s.out, quote(noticeKey)...)
		s.out = append(s.out, ':')
		s.out = append(s.out, quote(s.notice)...)
		s.placed = true
		n++
	}
	members := 0
	s.check(s.m.EachMember(v, func(m wire.Member) bool {
		if members++; members > s.size.keys || m.Key == "" && m.Name.Len() > 2 {
			return false // a large map; if the rest is required, the schema says so
		}
		if n++; n > 1 {
			s.out = append(s.out, ',')
		}
		s.out = append(append(s.out, quote(m.Key)...), ':')
		s.value(m.Value, depth+1)
		return s.err == nil
	}))
	s.out = append(s.out, '}')
}

func (s *shortener) array(v wire.Value, depth int) {
	s.out = append(s.out, '[')
	n := 0
	var last wire.Value
	cut := false
	s.check(s.m.Elements(v, func(e wire.Value) bool {
		if n == s.size.items {
			cut = true
			last = e
			return false
		}
		if n++; n > 1 {
			s.out = append(s.out, ',')
		}
		s.value(e, depth+1)
		return s.err == nil
	}))
	if cut && s.inText && !s.placed && !s.marked && s.err == nil {
		s.mark(last, n, depth)
	}
	s.out = append(s.out, ']')
}

// mark adds an element whose first string is the notice.
func (s *shortener) mark(e wire.Value, n, depth int) {
	before := len(s.out)
	if n > 0 {
		s.out = append(s.out, ',')
	}
	s.marked, s.left = true, s.skip
	s.value(e, depth+1)
	if s.marked { // it has too few strings
		s.out, s.marked = s.out[:before], false
		return
	}
	s.placed = true
}

func (s *shortener) text(v wire.Value) {
	if s.marked && s.left == 0 {
		s.out, s.marked = append(s.out, quote(s.notice)...), false
		return
	}
	s.left--
	head := make([]byte, s.size.chars*4)
	r := s.m.Strings(v)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		s.err = err
		return
	}
	text := []rune(string(head[:n]))
	if err != nil && len(text) <= s.size.chars { // all of it
		s.out = append(s.out, quote(string(text))...)
		return
	}
	short := strings.TrimRight(string(text[:min(len(text), s.size.chars)]), "\uFFFD") + "…"
	if s.inText && !s.placed && !s.marked {
		short = s.notice + " " + short
		s.placed = true
	}
	s.out = append(s.out, quote(short)...)
}

func (s *shortener) check(err error) {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("shorten: %w", err)
	}
}

func quote(text string) []byte {
	data, _ := wire.Encode(text) // strings do not fail
	return data
}
