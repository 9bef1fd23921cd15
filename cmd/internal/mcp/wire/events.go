package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// Resume is what a client needs to resume a stream of events.
type Resume struct {
	// ID is the id of the last event; it is empty if the stream cannot be resumed.
	ID string
	// Retry is the pause that the server asks for; 0 if it asks for none.
	Retry time.Duration
}

// Events calls f with the messages of each server-sent event, or with the *SizeError or
// the *SyntaxError of its data.
func Events(src io.Reader, resume *Resume, f func([]*Message, error)) error {
	r := bufio.NewReaderSize(src, readSize)
	var data Buffer
	id := resume.ID // counts when its event is complete: a part of an event is not enough
	for {
		part, err := r.ReadSlice('\n')
		if len(part) == 0 || err != nil && !errors.Is(err, bufio.ErrBufferFull) { // an event without its end does not count
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		line := bytes.TrimRight(part, "\r\n")
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		isData := string(name) == "data"
		switch string(name) {
		case "":
			if len(line) == 0 { // the end of the event
				resume.ID = id
				if messages, err := data.Messages(); messages != nil || err != nil {
					f(messages, err)
				}
			}
		case "data":
			if _, _ = data.Write(value); err == nil {
				_, _ = data.Write([]byte{'\n'})
			}
		case "id":
			if len(value) <= 1000 && bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				resume.Retry = time.Duration(ms) * time.Millisecond
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			if part, err = r.ReadSlice('\n'); isData {
				_, _ = data.Write(part)
			}
		}
	}
}
