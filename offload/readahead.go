package offload

import (
	"context"
	"io"
	"iter"
)

// readSize is the number of bytes read at a time.
const readSize = 1 << 20

// readAhead yields a content from a byte on, in parts, and reads the next part while the caller
// uses the last one. A part is valid until the next iteration.
func readAhead(ctx context.Context, c Content, off int64) iter.Seq2[[]byte, error] {
	type filled struct {
		data []byte
		err  error
	}
	return func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		full := make(chan filled)
		free := make(chan []byte, 2)
		size := min(c.Size()-off, readSize)
		free <- make([]byte, size)
		free <- make([]byte, size)
		go func() {
			defer close(full)
			for off < c.Size() {
				var buf []byte
				select {
				case buf = <-free:
				case <-ctx.Done():
					return
				}
				buf = buf[:min(size, c.Size()-off)]
				n, err := c.ReadAt(buf, off)
				if n < len(buf) {
					err = shortRead(err)
				} else if err == io.EOF {
					err = nil
				}
				select {
				case full <- filled{buf, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
				off += int64(n)
			}
		}()
		defer func() {
			cancel()
			for range full { // waits for the reading goroutine
			}
		}()
		for f := range full {
			if !yield(f.data, f.err) || f.err != nil {
				return
			}
			free <- f.data[:size]
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}
