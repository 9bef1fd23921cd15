package provider

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// sseEvent is one server-sent event.
type sseEvent struct {
	name  string // empty if the event has none
	data  []byte // the data lines, joined with line feeds
	whole bool   // it is no event, but an answer in one piece
}

// readEvents calls handle for each server-sent event with data, until handle returns
// an error or the stream ends, which is io.EOF. An event that the end of the stream
// cuts off is handled too, because some servers omit the last empty line.
//
// The format: https://html.spec.whatwg.org/multipage/server-sent-events.html
func readEvents(in *bufio.Reader, handle func(sseEvent) error) error {
	var event sseEvent
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err // the line is cut
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			event.data = append(append(event.data, value...), '\n')
		case "event":
			event.name = string(value)
		}
		if (len(line) == 0 || err != nil) && event.data != nil {
			event.data = bytes.TrimSuffix(event.data, []byte("\n"))
			if failure := handle(event); failure != nil {
				return failure
			}
		}
		if err != nil {
			return err
		}
		if len(line) == 0 {
			event = sseEvent{}
		}
	}
}
