package chat

import (
	"errors"
	"io"
)

// equal reports whether r yields exactly s.
func equal(r io.Reader, s string) (bool, error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > len(s) || string(buf[:n]) != s[:n] {
			return false, nil
		}
		s = s[n:]
		if errors.Is(err, io.EOF) {
			return s == "", nil
		}
		if err != nil {
			return false, err
		}
	}
}
