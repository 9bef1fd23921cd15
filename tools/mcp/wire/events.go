package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Events calls f with the data of each server-sent event. f takes over the body.
func Events(src io.Reader, f func(*Body)) error {
	r := bufio.NewReaderSize(src, scanBuffer)
	var data Collector
	defer data.Close()
	atStart, isData, lines := true, false, 0
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
				if !data.Empty() {
					f(data.Body())
				}
				data.Close()
				lines = 0
				continue
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
