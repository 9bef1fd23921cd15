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

// field reads the fields id and retry. It returns the id, which counts when the event is
// complete: otherwise a client would skip an event of which it has only the first part.
func (r *Resume) field(line []byte, id string) string {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "id":
		if len(value) <= 1000 && bytes.IndexByte(value, 0) < 0 {
			return string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			r.Retry = time.Duration(ms) * time.Millisecond
		}
	}
	return id
}

// Events calls f with the data of each server-sent event. f takes over the body.
func Events(src io.Reader, resume *Resume, f func(*Body)) error {
	r := bufio.NewReaderSize(src, scanBuffer)
	var data Collector
	defer data.Close()
	atStart, isData, lines, id := true, false, 0, resume.ID
	for {
		part, err := r.ReadSlice('\n')
		whole := err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && len(part) == 0 {
			if errors.Is(err, io.EOF) {
				return nil // an event without its end does not count
			}
			return err
		}
		if whole {
			part = bytes.TrimSuffix(bytes.TrimSuffix(part, []byte{'\n'}), []byte{'\r'})
		}
		if atStart {
			if whole && len(part) == 0 { // the end of an event
				resume.ID = id
				if !data.Empty() {
					f(data.Body())
				}
				data.Close()
				lines = 0
				continue
			}
			if whole {
				id = resume.field(part, id)
			}
			part, isData = bytes.CutPrefix(part, []byte("data:"))
			if isData {
				part = bytes.TrimPrefix(part, []byte{' '})
				if lines++; lines > 1 {
					part = append([]byte{'\n'}, part...)
				}
			}
		}
		if isData {
			if _, err := data.Write(part); err != nil {
				return err
			}
		}
		atStart = whole
	}
}
