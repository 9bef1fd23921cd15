package offload

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/tools"
)

// errNotJSON is the error of a jsonScanner for a text that is not JSON. Other errors
// come from the reader.
var errNotJSON = errors.New("not JSON")

// maxElement is the longest value that a jsonScanner returns, in bytes.
const maxElement = 64 << 20

// jsonScanner walks through JSON texts of any size without decoding them. It checks
// the structure but neither the escapes in strings nor the digits of numbers.
type jsonScanner struct {
	src  io.Reader
	buf  []byte // bytes that were read but not used
	room []byte // the whole buffer
	err  error
	used int64 // bytes before buf
	at   int64 // where the element of an array that elements yields begins

	capture  bool
	captured []byte
	tooLong  bool // the captured value is longer than maxElement
}

func newJSONScanner(src io.Reader) *jsonScanner {
	return &jsonScanner{src: src, room: make([]byte, 256<<10)}
}

// fill reads more if the buffer is empty.
func (s *jsonScanner) fill() error {
	for len(s.buf) == 0 {
		if s.err != nil {
			return s.err
		}
		var n int
		n, s.err = s.src.Read(s.room)
		s.buf = s.room[:n]
	}
	return nil
}

func (s *jsonScanner) drop(n int) {
	if s.capture {
		if s.tooLong = s.tooLong || len(s.captured)+n > maxElement; !s.tooLong {
			s.captured = append(s.captured, s.buf[:n]...)
		}
	}
	s.buf = s.buf[n:]
	s.used += int64(n)
}

// peek returns the next byte that is not white space.
func (s *jsonScanner) peek() (byte, error) {
	for {
		if err := s.fill(); err != nil {
			return 0, err
		}
		n := 0
		for n < len(s.buf) && (s.buf[n] == ' ' || s.buf[n] == '\n' || s.buf[n] == '\t' || s.buf[n] == '\r') {
			n++
		}
		s.drop(n)
		if len(s.buf) > 0 {
			return s.buf[0], nil
		}
	}
}

// need is peek in the middle of a value.
func (s *jsonScanner) need() (byte, error) {
	c, err := s.peek()
	if err == io.EOF {
		err = fmt.Errorf("%w: it ends in the middle of a value", errNotJSON)
	}
	return c, err
}

func (s *jsonScanner) bad(c byte) error {
	return fmt.Errorf("%w: unexpected %q at byte %d", errNotJSON, c, s.used)
}

// skip skips a value.
func (s *jsonScanner) skip() error {
	var open []byte
	for {
		c, err := s.need()
		if err != nil {
			return err
		}
		switch c {
		case '{', '[':
			s.drop(1)
			closing := c + 2
			next, err := s.need()
			if err != nil {
				return err
			}
			if next != closing {
				if open = append(open, closing); len(open) > 10_000 {
					return fmt.Errorf("%w: more than 10,000 nested values", errNotJSON)
				}
				if c == '{' {
					if err := s.key(); err != nil {
						return err
					}
				}
				continue
			}
			s.drop(1)
		default:
			if err := s.scalar(c); err != nil {
				return err
			}
		}
		for { // after a value
			if len(open) == 0 {
				return nil
			}
			c, err := s.need()
			if err != nil {
				return err
			}
			if c == open[len(open)-1] {
				s.drop(1)
				open = open[:len(open)-1]
				continue
			}
			if c != ',' {
				return s.bad(c)
			}
			s.drop(1)
			if open[len(open)-1] == '}' {
				if err := s.key(); err != nil {
					return err
				}
			}
			break
		}
	}
}

// key skips the key of an object and the colon.
func (s *jsonScanner) key() error {
	c, err := s.need()
	if err == nil && c != '"' {
		err = s.bad(c)
	}
	if err == nil {
		err = s.scalar(c)
	}
	if err != nil {
		return err
	}
	if c, err = s.need(); err == nil && c != ':' {
		err = s.bad(c)
	}
	if err == nil {
		s.drop(1)
	}
	return err
}

// scalar skips a string, a number or a name that begins with c.
func (s *jsonScanner) scalar(c byte) error {
	switch {
	case c == '"':
		s.drop(1)
		return s.text()
	case c == '-' || '0' <= c && c <= '9':
		for {
			if err := s.fill(); err != nil {
				if err == io.EOF {
					return nil
				}
				return err
			}
			n := 0
			for n < len(s.buf) && (s.buf[n] >= '0' && s.buf[n] <= '9' || s.buf[n] == '.' || s.buf[n] == '-' || s.buf[n] == '+' || s.buf[n]|0x20 == 'e') {
				n++
			}
			s.drop(n)
			if len(s.buf) > 0 {
				return nil
			}
		}
	}
	for _, name := range []string{"true", "false", "null"} {
		if name[0] != c {
			continue
		}
		for i := range len(name) {
			if err := s.fill(); err != nil || s.buf[0] != name[i] {
				return s.bad(c)
			}
			s.drop(1)
		}
		return nil
	}
	return s.bad(c)
}

// text skips the rest of a string.
func (s *jsonScanner) text() error {
	for {
		if err := s.fill(); err != nil {
			if err == io.EOF {
				err = fmt.Errorf("%w: it ends in the middle of a string", errNotJSON)
			}
			return err
		}
		end := bytes.IndexByte(s.buf, '"')
		part := s.buf
		if end >= 0 {
			part = s.buf[:end]
		}
		if slash := bytes.IndexByte(part, '\\'); slash >= 0 {
			s.drop(slash + 1)
			if err := s.fill(); err != nil {
				return fmt.Errorf("%w: it ends in the middle of a string", errNotJSON)
			}
			s.drop(1) // the escaped byte
			continue
		}
		if end >= 0 {
			s.drop(end + 1)
			return nil
		}
		s.drop(len(s.buf))
	}
}

// value returns the bytes of a value. They are valid until the next call.
func (s *jsonScanner) value() ([]byte, error) {
	if _, err := s.need(); err != nil {
		return nil, err
	}
	s.capture, s.captured = true, s.captured[:0]
	err := s.skip()
	s.capture = false
	if s.tooLong && err == nil {
		err = tools.Errorf(tools.CodeInvalidArguments, "the query needs a value of more than %d bytes as a whole; ask for its parts", maxElement)
	}
	return s.captured, err
}

// elements calls f at each element of an array or member of an object. f must read the
// value. name is the JSON of a member's name, or nil.
func (s *jsonScanner) elements(f func(name []byte) error) error {
	open, err := s.need()
	if err != nil {
		return err
	}
	if open != '[' && open != '{' {
		return s.bad(open)
	}
	s.drop(1)
	return s.rest(open+2, f)
}

// rest is elements for a text that begins at an element, or at the end, of an array or
// object.
func (s *jsonScanner) rest(closing byte, f func(name []byte) error) error {
	for first := true; ; first = false {
		c, err := s.need()
		switch {
		case err != nil:
			return err
		case c == closing:
			s.drop(1)
			return nil
		case !first && c != ',':
			return s.bad(c)
		case !first:
			s.drop(1)
			if _, err := s.need(); err != nil {
				return err
			}
		}
		s.at = s.used
		var name []byte
		if closing == '}' {
			capture, before := s.capture, s.captured
			s.capture, s.captured = true, nil
			err := s.key()
			name = bytes.TrimRight(s.captured, ": \t\r\n")
			s.capture, s.captured = capture, append(before, s.captured...)
			if err != nil {
				return err
			}
		}
		if err := f(name); err != nil {
			return err
		}
	}
}
