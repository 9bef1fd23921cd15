package provider

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// sseEvent is one server-sent event.
type sseEvent struct {
	name string // empty if the event has none
	data []byte // the data lines, joined with line feeds
}

// readEvents calls handle for each server-sent event with data, until handle returns
// an error or the stream ends, which is io.EOF. An event that the end of the stream
// cuts off is handled too, because some servers omit the last empty line.
//
// The format: https://html.spec.whatwg.org/multipage/server-sent-events.html
func readEvents(in *bufio.Reader, handle func(sseEvent) error) error {
	var (
		event sseEvent
		lines int
	)
	reader := lineReader{in: in}
	for {
		line, err := reader.read()
		if err != nil && !errors.Is(err, io.EOF) {
			return err // the line is cut
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if lines++; lines > 1 {
				event.data = append(event.data, '\n')
			}
			event.data = append(event.data, value...)
		case "event":
			event.name = string(value)
		}
		if (len(line) == 0 || err != nil) && lines > 0 {
			if failure := handle(event); failure != nil {
				return failure
			}
		}
		if err != nil {
			return err
		}
		if len(line) == 0 {
			event, lines = sseEvent{}, 0
		}
	}
}

// lineReader reads lines that end with LF, CR LF or CR.
type lineReader struct {
	in    *bufio.Reader
	wasCR bool // the last line ended with CR, so a LF belongs to its end
}

func (r *lineReader) read() (line []byte, err error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return line, err
		}
		wasCR := r.wasCR
		r.wasCR = c == '\r'
		switch {
		case c == '\n' && wasCR && len(line) == 0:
		case c == '\n', c == '\r':
			return line, nil
		default:
			line = append(line, c)
		}
	}
}
