package offload

import (
	"fmt"
	"io"
	"sync"
)

// blocks is the ReadAt of stores that keep content in blocks: it loads whole
// ones and checks each against the index.
type blocks struct {
	index *Index
	// load returns the bytes of block i, in buf if that suits it and buf is
	// not nil. It is called concurrently.
	load   func(i int, buf []byte) ([]byte, error)
	recent *recentBlocks
}

func (b *blocks) Size() int64 { return b.index.Size() }

func (b *blocks) Index() *Index { return b.index }

// ReadAt implements io.ReaderAt.
func (b *blocks) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read content: the offset %d is negative", off)
	}
	for n < len(p) {
		if off >= b.index.Size() {
			return n, io.EOF
		}
		i, from := int(off/BlockSize), int(off%BlockSize)
		var m int
		if room := p[n:]; from == 0 && len(room) >= b.index.BlockLen(i) {
			m, err = b.direct(i, room[:b.index.BlockLen(i)])
		} else {
			var data []byte
			data, err = b.block(i)
			m = copy(room, data[min(from, len(data)):])
		}
		if err != nil {
			return n, fmt.Errorf("read content: %w", err)
		}
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// direct reads a whole block to where it is wanted.
func (b *blocks) direct(i int, p []byte) (int, error) {
	if data, ok := b.recent.get(i); ok {
		return copy(p, data), nil
	}
	data, err := b.loadChecked(i, p)
	if err == nil && &data[0] != &p[0] {
		copy(p, data)
	}
	return len(data), err
}

// block returns a whole block, which nobody may change.
func (b *blocks) block(i int) ([]byte, error) {
	if data, ok := b.recent.get(i); ok {
		return data, nil
	}
	data, err := b.loadChecked(i, nil)
	if err == nil {
		b.recent.add(i, data)
	}
	return data, err
}

func (b *blocks) loadChecked(i int, buf []byte) ([]byte, error) {
	data, err := b.load(i, buf)
	if err != nil {
		return nil, err
	}
	if err := b.index.Check(i, data); err != nil {
		return nil, err
	}
	return data, nil
}

// blockContent is a Content whose blocks are remembered, so that finding a place
// and reading on from it cost one read of the store.
type blockContent interface {
	Content
	blockReader
}

// inBlocks makes a content one, unless its store did.
func inBlocks(c Content) blockContent {
	if own, ok := c.(blockContent); ok {
		return own
	}
	return newFlatContent(c, c.Index())
}

// flatContent is a Content whose blocks lie one after the other: in a file, or in
// a content that does not remember them.
type flatContent struct {
	blocks
	io.Closer
}

func newFlatContent(src interface {
	io.ReaderAt
	io.Closer
}, x *Index) *flatContent {
	c := &flatContent{Closer: src}
	c.index, c.recent = x, &recentBlocks{}
	c.load = func(i int, buf []byte) ([]byte, error) {
		if buf == nil {
			buf = make([]byte, x.BlockLen(i))
		}
		n, err := src.ReadAt(buf, int64(i)*BlockSize)
		if err == io.EOF {
			err = nil // too short, as the check will say
		}
		return buf[:n], err
	}
	return c
}

// cachedBlocks is how many blocks of a content are remembered: whoever looks for
// a line and then reads it pays for the block once.
const cachedBlocks = 8

// recentBlocks are the blocks of one content that were read last.
type recentBlocks struct {
	mu   sync.Mutex
	list []cachedBlock // the newest last
}

type cachedBlock struct {
	i    int
	data []byte
}

func (r *recentBlocks) get(i int) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.list {
		if c.i == i {
			return c.data, true
		}
	}
	return nil, false
}

func (r *recentBlocks) add(i int, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == cachedBlocks {
		copy(r.list, r.list[1:])
		r.list = r.list[:cachedBlocks-1]
	}
	r.list = append(r.list, cachedBlock{i, data})
}
