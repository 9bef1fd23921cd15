package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Value is the position of a JSON value: bytes Start to End (exclusive).
type Value struct {
	Start, End int64
	// Kind is the first byte of the value: one of { [ " t f n, a digit or '-'. It is 0
	// if there is no value.
	Kind byte
}

// Exists reports whether there is a value.
func (v Value) Exists() bool { return v.Kind != 0 }

// Len is the length of the value in bytes.
func (v Value) Len() int64 { return v.End - v.Start }

// errSyntax is wrapped by the errors for text that is not JSON.
var errSyntax = errors.New("invalid JSON")

// maxKey is the longest key of an object that is decoded. Longer keys are reported as
// "", because no field of the protocol is that long.
const maxKey = 256

// Member is a member of an object. Name is the position of its key.
type Member struct {
	Key   string
	Name  Value
	Value Value
}

// scanner finds the ends of JSON values. It checks the structure of the text, but not
// the content of strings and numbers.
type scanner struct {
	src  io.ReaderAt
	end  int64
	buf  []byte
	base int64 // the position of buf[0]
	i    int   // the position in buf
}

const scanBuffer = 64 << 10

// more reports whether there is a byte at i, and reads the next part if necessary.
func (s *scanner) more() (bool, error) {
	if s.i < len(s.buf) {
		return true, nil
	}
	s.base += int64(s.i)
	s.i = 0
	if s.base >= s.end || s.src == nil {
		s.buf = nil
		return false, nil
	}
	if cap(s.buf) < scanBuffer {
		s.buf = make([]byte, scanBuffer)
	}
	n, err := s.src.ReadAt(s.buf[:min(int64(cap(s.buf)), s.end-s.base)], s.base)
	s.buf = s.buf[:n]
	if n > 0 {
		return true, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return false, err
}

func (s *scanner) pos() int64 { return s.base + int64(s.i) }

// peek skips white space and returns the next byte.
func (s *scanner) peek() (byte, error) {
	for {
		ok, err := s.more()
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, fmt.Errorf("%w: it ends at byte %d", errSyntax, s.pos())
		}
		switch c := s.buf[s.i]; c {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return c, nil
		}
	}
}

func (s *scanner) expect(want byte) error {
	c, err := s.peek()
	if err == nil && c != want {
		err = fmt.Errorf("%w: want %q at byte %d", errSyntax, want, s.pos())
	}
	s.i++
	return err
}

// str moves past a string; the scanner is at its opening quotation mark.
func (s *scanner) str() error {
	s.i++
	for {
		ok, err := s.more()
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: a string does not end", errSyntax)
		}
		// A search for each quotation mark would read the buffer once for each escape.
		i := s.i
		for i < len(s.buf) && s.buf[i] != '"' && s.buf[i] != '\\' {
			i++
		}
		s.i = i
		switch {
		case i == len(s.buf):
		case s.buf[i] == '"':
			s.i++
			return nil
		default:
			s.i++
			if ok, err := s.more(); err != nil || !ok { // the escaped byte may be in the next part
				return errors.Join(errSyntax, err)
			}
			s.i++
		}
	}
}

// value moves past the next value.
func (s *scanner) value() (v Value, err error) {
	if v.Kind, err = s.peek(); err != nil {
		return Value{}, err
	}
	v.Start = s.pos()
	switch c := v.Kind; {
	case c == '"':
		err = s.str()
	case c == '{' || c == '[':
		err = s.nested()
	case c == '-' || c == 't' || c == 'f' || c == 'n' || c >= '0' && c <= '9':
		err = s.literal()
	default:
		err = fmt.Errorf("%w: unexpected %q at byte %d", errSyntax, c, s.pos())
	}
	v.End = s.pos()
	return v, err
}

// nested moves past an object or an array. It needs one bit for each level.
func (s *scanner) nested() error {
	var open []byte
	for {
		ok, err := s.more()
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: an object or array does not end", errSyntax)
		}
		switch c := s.buf[s.i]; c {
		case '"':
			if err := s.str(); err != nil {
				return err
			}
			continue
		case '{', '[':
			if len(open) >= maxDepth {
				return fmt.Errorf("%w: more than %d levels", errSyntax, maxDepth)
			}
			open = append(open, c+2) // the closing bracket is two after the opening one
		case '}', ']':
			if open[len(open)-1] != c {
				return fmt.Errorf("%w: unexpected %q at byte %d", errSyntax, c, s.pos())
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				s.i++
				return nil
			}
		}
		s.i++
	}
}

// maxDepth is the number of nested levels that encoding/json accepts, too.
const maxDepth = 10_000

func (s *scanner) literal() error {
	for {
		ok, err := s.more()
		if err != nil || !ok {
			return err
		}
		switch s.buf[s.i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n', ':', '"', '{', '[':
			return nil
		}
		s.i++
	}
}

// Whole returns the position of the only value of a message.
func (b *Body) Whole() (Value, error) {
	s := b.scanner(0)
	v, err := s.value()
	if err != nil {
		return Value{}, err
	}
	if _, err := s.peek(); err == nil {
		return Value{}, fmt.Errorf("%w: more text after byte %d", errSyntax, v.End)
	}
	return v, nil
}

// Members returns the members of an object, at most limit. A repeated key is an error,
// because two programs could read two messages.
func (b *Body) Members(v Value, limit int) ([]Member, error) {
	var members []Member
	seen := map[string]bool{}
	var repeated string
	err := b.EachMember(v, func(m Member) bool {
		if m.Key != "" && seen[m.Key] {
			repeated = m.Key
		}
		seen[m.Key] = true
		members = append(members, m)
		return len(members) <= limit && repeated == ""
	})
	switch {
	case err != nil:
		return nil, err
	case repeated != "":
		return nil, fmt.Errorf("%w: the key %q is repeated", errSyntax, repeated)
	case len(members) > limit:
		return nil, fmt.Errorf("an object has more than %d members", limit)
	}
	return members, nil
}

// EachMember calls f with each member of an object, until f returns false.
func (b *Body) EachMember(v Value, f func(Member) bool) error {
	if v.Kind != '{' {
		return fmt.Errorf("%w: want an object", errSyntax)
	}
	s := b.scanner(v.Start + 1)
	for first := true; ; first = false {
		c, err := s.peek()
		switch {
		case err != nil:
			return err
		case c == '}':
			return nil
		}
		if !first {
			if err := s.expect(','); err != nil {
				return err
			}
		}
		if c, err = s.peek(); err != nil || c != '"' {
			return errors.Join(fmt.Errorf("%w: want a key at byte %d", errSyntax, s.pos()), err)
		}
		key, err := s.value()
		if err == nil {
			err = s.expect(':')
		}
		if err != nil {
			return err
		}
		m := Member{Name: key}
		if m.Value, err = s.value(); err != nil {
			return err
		}
		if key.Len() <= maxKey {
			if m.Key, err = b.Text(key, maxKey); err != nil {
				return err
			}
		}
		if !f(m) {
			return nil
		}
	}
}

// Elements calls f with each element of an array, until f returns false.
func (b *Body) Elements(v Value, f func(Value) bool) error {
	if v.Kind != '[' {
		return fmt.Errorf("%w: want an array", errSyntax)
	}
	s := b.scanner(v.Start + 1)
	for first := true; ; first = false {
		c, err := s.peek()
		switch {
		case err != nil:
			return err
		case c == ']':
			return nil
		}
		if !first {
			if err := s.expect(','); err != nil {
				return err
			}
		}
		element, err := s.value()
		if err != nil {
			return err
		}
		if !f(element) {
			return nil
		}
	}
}

// Get returns the member of an object with a key.
func (b *Body) Get(v Value, key string) (Value, error) {
	members, err := b.Members(v, maxMembers)
	if err != nil {
		return Value{}, err
	}
	return Find(members, key), nil
}

// maxMembers is the most members of an object of the protocol.
const maxMembers = 10_000

// Find returns the value of a key.
func Find(members []Member, key string) Value {
	for _, m := range members {
		if m.Key == key {
			return m.Value
		}
	}
	return Value{}
}

// Text decodes a string of at most limit bytes.
func (b *Body) Text(v Value, limit int64) (string, error) {
	if v.Kind != '"' {
		return "", fmt.Errorf("%w: want a string", errSyntax)
	}
	raw, err := b.Bytes(v, limit)
	if err != nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("%w: %w", errSyntax, err)
	}
	return text, nil
}
