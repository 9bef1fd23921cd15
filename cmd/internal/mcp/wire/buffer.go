package wire

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// MaxMessage is the largest message, in bytes.
const MaxMessage = 64 << 20

// SizeError is the error for a message that is larger than MaxMessage. It concerns this
// message only.
type SizeError struct {
	// ID is the id of the message; it is empty if it cannot be found.
	ID   string
	Size int64
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("a message of %d bytes is larger than the limit of %d MiB", e.Size, MaxMessage>>20)
}

// SyntaxError is the error for text that is not a message. It concerns this text only.
type SyntaxError struct {
	// ID is the id of a message that is nested too deeply, or that is wrong elsewhere; it is empty
	// if it cannot be found.
	ID string
	// Text is the beginning of the text.
	Text string
	Err  error
}

func (e *SyntaxError) Error() string { return e.Err.Error() }
func (e *SyntaxError) Unwrap() error { return e.Err }

// IsOfOneMessage reports whether an error is a *SizeError or a *SyntaxError.
func IsOfOneMessage(err error) bool {
	_, size := errors.AsType[*SizeError](err)
	_, syntax := errors.AsType[*SyntaxError](err)
	return size || syntax
}

// Buffer collects the text of a message. Of a text that is too large it keeps the two
// ends, one of which tells the id.
type Buffer struct {
	data, end []byte
	size      int64
}

const keptEnd = 4 << 10

// Write implements io.Writer. It does not fail.
func (b *Buffer) Write(p []byte) (int, error) {
	b.size += int64(len(p))
	if b.size <= MaxMessage {
		b.data = append(b.data, p...)
		return len(p), nil
	}
	if b.end == nil {
		b.end = bytes.Clone(b.data[max(0, len(b.data)-keptEnd):])
		b.data = bytes.Clone(b.data[:min(len(b.data), keptEnd)])
	}
	b.end = append(b.end, p...)
	b.end = bytes.Clone(b.end[max(0, len(b.end)-keptEnd):])
	return len(p), nil
}

// Messages returns the message, or the messages of an array (as revision 2025-03-26 has
// them), and empties the buffer. It returns nothing for white space, and a *SizeError or
// a *SyntaxError for what is not a message.
func (b *Buffer) Messages() (messages []*Message, err error) {
	text, end, size := bytes.TrimSpace(b.data), b.end, b.size
	*b = Buffer{}
	switch {
	case size > MaxMessage:
		return nil, &SizeError{ID: idOf(text, end), Size: size}
	case len(text) == 0:
		return nil, nil
	case text[0] != '[':
		m, err := Parse(text)
		if err != nil {
			return nil, syntaxError(text, err)
		}
		return []*Message{m}, nil
	case !isValid(text):
		return nil, syntaxError(text, errInvalid)
	}
	for element := range Elements(text) {
		m, err := Parse(element)
		if err != nil {
			return nil, syntaxError(text, err)
		}
		messages = append(messages, m)
	}
	if messages == nil {
		return nil, syntaxError(text, errors.New("an array without messages"))
	}
	return messages, nil
}

func syntaxError(text []byte, err error) error {
	e := &SyntaxError{Text: string(text[:min(len(text), 200)]), Err: err}
	if text[0] == '{' && text[len(text)-1] == '}' { // it is not cut
		e.ID = idOf(text, text[max(0, len(text)-keptEnd):])
	}
	return e
}

// The members of a message whose text is cut: most programs write the id before or after
// all other members, except for the version.
var (
	idAtStart = lazyregexp.New(`^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*,`)
	idAtEnd   = lazyregexp.New(`,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

func idOf(start, end []byte) string {
	if m := idAtStart.FindSubmatch(start); m != nil {
		return IDOf(m[1])
	}
	if m := idAtEnd.FindSubmatch(end); m != nil {
		return IDOf(m[1])
	}
	return ""
}
