package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unescaper decodes the inside of a JSON string.
type unescaper struct {
	src     *bufio.Reader
	pending []byte // decoded bytes that did not fit
	high    rune   // the first half of a surrogate pair
	err     error
	scratch [2 * utf8.UTFMax]byte
}

func newUnescaper(src io.Reader) *unescaper {
	return &unescaper{src: bufio.NewReaderSize(src, scanBuffer)}
}

func (u *unescaper) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(u.pending) > 0 {
			c := copy(p[n:], u.pending)
			n, u.pending = n+c, u.pending[c:]
			continue
		}
		if u.err != nil {
			return n, u.err
		}
		u.pending, u.err = u.next()
	}
	return n, nil
}

// next returns the next decoded part, which is valid until the next call.
func (u *unescaper) next() ([]byte, error) {
	part, err := u.src.ReadSlice('\\')
	escape := err == nil
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	if escape {
		part = part[:len(part)-1]
	}
	if len(part) > 0 || !escape {
		if escape {
			_ = u.src.UnreadByte() // the backslash was read last
		}
		if u.high != 0 && (len(part) > 0 || err != nil) { // a first half without the second one
			u.high = 0
			return append([]byte(string(utf8.RuneError)), part...), err
		}
		return part, err
	}
	return u.escape()
}

// escape decodes the text after a backslash.
func (u *unescaper) escape() ([]byte, error) {
	c, err := u.src.ReadByte()
	if err != nil {
		return nil, errSyntax
	}
	var r rune
	switch c {
	case '"', '\\', '/':
		r = rune(c)
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		var digits [4]byte
		if _, err := io.ReadFull(u.src, digits[:]); err != nil {
			return nil, errSyntax
		}
		code, err := strconv.ParseUint(string(digits[:]), 16, 16)
		if err != nil {
			return nil, fmt.Errorf("%w: invalid escape", errSyntax)
		}
		r = rune(code)
	default:
		return nil, fmt.Errorf("%w: invalid escape", errSyntax)
	}
	high := u.high
	u.high = 0
	out := u.scratch[:0]
	if high != 0 {
		if pair := utf16.DecodeRune(high, r); pair != utf8.RuneError {
			return utf8.AppendRune(u.scratch[:0], pair), nil
		}
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	if utf16.IsSurrogate(r) {
		if r < 0xDC00 {
			u.high = r
			return out, nil
		}
		r = utf8.RuneError
	}
	return utf8.AppendRune(out, r), nil
}
