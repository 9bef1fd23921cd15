// Package blocks reads stored content in whole blocks and checks each of them
// against the content's index.
package blocks

import (
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/offload/index"
)

// Reader implements the ReadAt of an offload.Content on top of a function that
// loads whole blocks. It is safe for concurrent use.
type Reader struct {
	index *index.Index
	load  loadFunc
	cache *Cache[int, []byte]
}

// loadFunc returns the bytes of block i. It may use buf, which is nil or has the
// length of the block. Reader calls it concurrently.
type loadFunc func(i int, buf []byte) ([]byte, error)

// NewReader returns a Reader of the content that x describes. Readers of the same
// content may share a cache.
func NewReader(x *index.Index, cache *Cache[int, []byte], load loadFunc) *Reader {
	return &Reader{index: x, load: load, cache: cache}
}

// Size returns the number of bytes of the content.
func (r *Reader) Size() int64 { return r.index.Size() }

// Index implements offload.Content.
func (r *Reader) Index() *index.Index { return r.index }

// ReadAt implements io.ReaderAt. It returns index.ErrCorrupt for a damaged block.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read content: negative offset %d", off)
	}
	for n < len(p) {
		if off >= r.index.Size() {
			return n, io.EOF
		}
		i, from := int(off/index.BlockSize), int(off%index.BlockSize)
		var m int
		if rest := p[n:]; from == 0 && len(rest) >= r.index.BlockLen(i) {
			m, err = r.readInto(i, rest[:r.index.BlockLen(i)])
		} else {
			var data []byte
			data, err = r.Block(i)
			m = copy(rest, data[min(from, len(data)):])
		}
		if err != nil {
			return n, fmt.Errorf("read content: %w", err)
		}
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// readInto reads a whole block into p.
func (r *Reader) readInto(i int, p []byte) (int, error) {
	if data, ok := r.cache.Get(i); ok {
		return copy(p, data), nil
	}
	data, err := r.loadChecked(i, p)
	if err == nil && &data[0] != &p[0] {
		copy(p, data)
	}
	return len(data), err
}

// Block implements index.BlockReader.
func (r *Reader) Block(i int) ([]byte, error) {
	if data, ok := r.cache.Get(i); ok {
		return data, nil
	}
	data, err := r.loadChecked(i, nil)
	if err == nil {
		r.cache.Add(i, data)
	}
	return data, err
}

func (r *Reader) loadChecked(i int, buf []byte) ([]byte, error) {
	data, err := r.load(i, buf)
	if err != nil {
		return nil, err
	}
	if err := r.index.Check(i, data); err != nil {
		return nil, err
	}
	return data, nil
}

// Content is a Reader over a file or another io.ReaderAt. It implements
// offload.Content.
type Content struct {
	*Reader
	src io.ReaderAt
}

// Close closes the source, if it is an io.Closer.
func (c *Content) Close() error {
	if closer, ok := c.src.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// NewContent returns the content in src that x describes.
func NewContent(src io.ReaderAt, x *index.Index) *Content {
	load := func(i int, buf []byte) ([]byte, error) {
		if buf == nil {
			buf = make([]byte, x.BlockLen(i))
		}
		n, err := src.ReadAt(buf, int64(i)*index.BlockSize)
		if err == io.EOF {
			err = nil // Check reports a block that is too short
		}
		return buf[:n], err
	}
	return &Content{NewReader(x, &Cache[int, []byte]{}, load), src}
}
