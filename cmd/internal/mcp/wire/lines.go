package wire

import (
	"bufio"
	"errors"
	"io"
)

const readSize = 64 << 10

// Lines reads messages from a stream in which each line is one message.
type Lines struct {
	src   *bufio.Reader
	batch []*Message // the rest of an array of messages
}

// NewLines returns the messages of src.
func NewLines(src io.Reader) *Lines { return &Lines{src: bufio.NewReaderSize(src, readSize)} }

// Next returns the next message. After a *SizeError or a *SyntaxError the stream goes on.
func (l *Lines) Next() (m *Message, err error) {
	for len(l.batch) == 0 {
		var line Buffer
		part, readErr := l.src.ReadSlice('\n')
		for ; errors.Is(readErr, bufio.ErrBufferFull); part, readErr = l.src.ReadSlice('\n') {
			_, _ = line.Write(part)
		}
		_, _ = line.Write(part)
		if l.batch, err = line.Messages(); err != nil {
			return nil, err
		}
		if len(l.batch) == 0 && readErr != nil {
			return nil, readErr
		}
	}
	m, l.batch = l.batch[0], l.batch[1:]
	return m, nil
}
