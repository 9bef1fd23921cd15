// Package jsonread walks through JSON texts of any size in bounded memory.
package jsonread

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	// ErrNotJSON is the error for a text that is not JSON.
	ErrNotJSON = errors.New("not JSON")
	// ErrTooLong is the error for a value, or a string within one that is skipped, that is
	// longer than the limit of the Reader.
	ErrTooLong = errors.New("a value is too long")
)

// Reader reads JSON values, one after the other. Its methods return io.EOF only at the end of
// the text, and otherwise ErrNotJSON, ErrTooLong or an error of the source.
type Reader struct{ dec *jsontext.Decoder }

// Lenient accepts what jq accepts: repeated keys, halves of surrogate pairs, and bytes that are not UTF-8.
var Lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// BOM is the byte order mark with which programs of Windows begin a text.
const BOM = "\ufeff"

// WithoutBOM returns a text without its byte order mark.
func WithoutBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte(BOM)) }

// Values counts the values at the start of a text, and says why they end: io.EOF, io.ErrUnexpectedEOF in the middle of
// a value, or what is no JSON. nested is true if all of them are objects and arrays.
func Values(text []byte) (n int, nested bool, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(WithoutBOM(text)), Lenient...)
	for nested = true; ; n++ {
		kind := dec.PeekKind()
		if err = dec.SkipValue(); err != nil {
			return n, nested, err
		}
		nested = nested && (kind == '{' || kind == '[')
	}
}

// SkipBOM skips a byte order mark, and reports whether there is one.
func SkipBOM(in *bufio.Reader) bool {
	start, _ := in.Peek(len(BOM))
	if string(start) != BOM {
		return false
	}
	_, err := in.Discard(len(BOM))
	return err == nil
}

// New returns a Reader that holds about limit bytes in memory.
func New(src io.Reader, limit int64) *Reader {
	buffered := bufio.NewReaderSize(src, int(min(limit, 256<<10)))
	b := &bounded{src: buffered, limit: limit}
	if SkipBOM(buffered) { // spaces keep the offsets
		b.src = io.MultiReader(strings.NewReader("   "), buffered)
	}
	b.dec = jsontext.NewDecoder(b, Lenient...)
	return &Reader{b.dec}
}

// bounded fails if its decoder asks for more than limit bytes behind the last token.
type bounded struct {
	src   io.Reader
	dec   *jsontext.Decoder
	read  int64
	limit int64
}

func (b *bounded) Read(p []byte) (int, error) {
	left := b.limit - (b.read - b.dec.InputOffset())
	if left < 0 {
		return 0, ErrTooLong
	}
	n, err := b.src.Read(p[:min(int64(len(p)), left+1)])
	b.read += int64(n)
	return n, err
}

// Offset returns the byte behind what was read. White space or a comma may precede the next
// value.
func (r *Reader) Offset() int64 { return r.dec.InputOffset() }

// Peek returns the kind of the next value.
func (r *Reader) Peek() (jsontext.Kind, error) {
	if k := r.dec.PeekKind(); k != 0 {
		return k, nil
	}
	_, err := r.dec.ReadToken()
	return 0, r.failed(err)
}

// Value returns the text of the next value. It is valid until the next call.
func (r *Reader) Value() ([]byte, error) {
	v, err := r.dec.ReadValue()
	return v, r.failed(err)
}

// Skip skips the next value.
func (r *Reader) Skip() error { return r.failed(r.dec.SkipValue()) }

// Elements calls f at each element of an array or member of an object; f must read the
// value. The name of an element is empty.
func (r *Reader) Elements(f func(name string) error) error {
	start, err := r.dec.ReadToken()
	if err != nil {
		return r.failed(err)
	}
	open := start.Kind()
	if open != '[' && open != '{' {
		return fmt.Errorf("%w: neither an array nor an object at byte %d", ErrNotJSON, r.Offset())
	}
	for {
		k, err := r.Peek()
		if err != nil {
			return err
		}
		name := ""
		if open == '{' || k == ']' {
			token, err := r.dec.ReadToken() // a name, or the end
			if err != nil || k != '"' {
				return r.failed(err)
			}
			name = token.String()
		}
		if err := f(name); err != nil {
			return err
		}
	}
}

func (r *Reader) failed(err error) error {
	switch {
	case err == nil || err == io.EOF && r.dec.StackDepth() == 0:
		return err
	case errors.Is(err, ErrTooLong): // jsontext calls it a syntax error
		return ErrTooLong
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends in the middle of a value", ErrNotJSON)
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("%w: %v", ErrNotJSON, syntax)
	}
	return err
}

// TypeOf returns what a value of a kind is.
func TypeOf(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
