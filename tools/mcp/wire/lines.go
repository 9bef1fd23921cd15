package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// Lines reads messages from a stream in which each line is one message.
type Lines struct {
	src   *bufio.Reader
	limit int64
	batch []*Message // the rest of an array of messages
}

// NewLines returns the messages of src. A message of more than limit bytes ends the
// stream with an error; 0 means 4 GiB.
func NewLines(src io.Reader, limit int64) *Lines {
	if limit <= 0 {
		limit = 4 << 30
	}
	return &Lines{src: bufio.NewReaderSize(src, scanBuffer), limit: limit}
}

// SyntaxError is the error of Next for a line that is not a message. The stream goes
// on.
type SyntaxError struct {
	// Line is the beginning of the line.
	Line string
	Err  error
}

func (e *SyntaxError) Error() string { return e.Err.Error() }
func (e *SyntaxError) Unwrap() error { return e.Err }

// Next returns the next message. The caller closes it.
func (l *Lines) Next() (*Message, error) {
	for len(l.batch) == 0 {
		body, err := l.line()
		if err != nil {
			return nil, err
		}
		if body == nil {
			continue // an empty line
		}
		if l.batch, err = ParseAll(body); err != nil {
			l.batch = nil
			line := make([]byte, 200)
			n, _ := body.ReadAt(line, 0)
			body.Close()
			return nil, &SyntaxError{Line: string(line[:n]), Err: err}
		}
	}
	m := l.batch[0]
	l.batch = l.batch[1:]
	return m, nil
}

// ParseAll parses a message, or an array of messages, which revision 2025-03-26 had.
func ParseAll(body *Body) ([]*Message, error) {
	if whole, err := body.Whole(); err != nil || whole.Kind != '[' || !body.InMemory() {
		m, err := Parse(body)
		return []*Message{m}, err
	}
	var batch []*Message
	var errs error
	whole, _ := body.Whole()
	err := body.Elements(whole, func(v Value) bool {
		m, err := Parse(BodyOf(body.data[v.Start:v.End]))
		if batch = append(batch, m); err != nil {
			errs = err
		}
		return err == nil
	})
	if len(batch) == 0 {
		errs = errors.Join(errs, errSyntax)
	}
	return batch, errors.Join(err, errs)
}

// line returns the next line; nil for an empty one.
func (l *Lines) line() (*Body, error) {
	c := Collector{Limit: l.limit}
	for {
		part, err := l.src.ReadSlice('\n')
		if err == nil {
			part = bytes.TrimRight(part, "\r\n") // some readers accept nothing after a message
		}
		if _, err := c.Write(part); err != nil {
			c.Close()
			return nil, err
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && !c.Empty():
			// The last line has no end: it may be cut.
		case err != nil:
			c.Close()
			return nil, err
		}
		if c.Empty() {
			c.Close()
			return nil, nil
		}
		return c.Body(), nil
	}
}

// Writer writes messages as lines. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	dst *bufio.Writer
}

// NewWriter returns a writer to dst.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: bufio.NewWriterSize(dst, scanBuffer)} }

// Write writes a message with its edits.
func (w *Writer) Write(m *Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := m.WriteEdited(w.dst, m.Edits); err != nil {
		return err
	}
	return w.dst.Flush()
}
