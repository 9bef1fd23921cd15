package offload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/stevedore-bus/stevedore/offload/index"
)

// ring is how many blocks an intake holds: one is read while others are
// written and indexed.
const ring = 4

// buffers are blocks to be used again.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() []byte {
	if p, ok := b.pool.Get().(*[index.BlockSize]byte); ok {
		return p[:]
	}
	return make([]byte, index.BlockSize)
}

func (b *buffers) put(buf []byte) { b.pool.Put((*[index.BlockSize]byte)(buf)) }

// intake is one pass over a source: what a store needs to know of the bytes,
// and those that are still in memory.
type intake struct {
	index  *index.Index
	digest string // hexadecimal
	blocks [ring][]byte
	read   int // blocks read
}

// take reads src to its end in whole blocks, however little a Read returns,
// and gives each to sink, which may not keep it. A block is indexed and hashed
// beside sink; ended, unless nil, is called when sink has had the last one,
// while that goes on. At most ring blocks are in memory.
func (b *buffers) take(ctx context.Context, src io.Reader, sink func(block []byte) error, ended func()) (*intake, error) {
	if ended == nil {
		ended = func() {}
	}
	in := &intake{}
	if err := in.run(ctx, b, src, sink, ended); err != nil {
		b.release(in)
		return nil, err
	}
	return in, nil
}

// release gives the memory of an intake back.
func (b *buffers) release(in *intake) {
	for i, buf := range in.blocks {
		if buf != nil {
			b.put(buf[:index.BlockSize])
			in.blocks[i] = nil
		}
	}
}

func (in *intake) run(ctx context.Context, b *buffers, src io.Reader, sink func([]byte) error, ended func()) (err error) {
	w := index.NewIndexer()
	var (
		todo     = make(chan []byte, ring)
		indexed  = make(chan struct{}, ring)
		indexing sync.WaitGroup
	)
	defer func() {
		close(todo)
		indexing.Wait()
		if err == nil {
			in.index, in.digest = w.Finish()
		}
	}()
	for last := false; !last; {
		slot := in.read % ring
		if in.read >= ring {
			<-indexed // the block that the slot held is done with
		} else {
			in.blocks[slot] = b.get()
		}
		n, err := fill(ctx, src, in.blocks[slot][:index.BlockSize])
		if last = err == io.EOF; err != nil && !last {
			return fmt.Errorf("read the content: %w", err)
		}
		if n == 0 {
			in.hide(slot)
			break
		}
		block := in.blocks[slot][:n]
		in.blocks[slot] = block
		if in.read == 0 && !last {
			indexing.Go(func() {
				for block := range todo {
					w.Block(block)
					indexed <- struct{}{}
				}
			})
		}
		// A sink hands the block on and returns, so hashing comes second.
		alone := in.read == 0 && last
		if in.read++; !alone {
			todo <- block
		}
		if err := sink(block); err != nil {
			return err
		}
		if alone {
			ended()
			w.Block(block)
			return nil
		}
	}
	ended()
	return nil
}

// hide marks a slot whose block was overwritten by a read that found the end.
func (in *intake) hide(slot int) { in.blocks[slot] = in.blocks[slot][:0] }

// block returns block i if it is still in memory.
func (in *intake) block(i int) ([]byte, bool) {
	if i < 0 || i >= in.read || i < in.read-ring {
		return nil, false
	}
	block := in.blocks[i%ring]
	return block, len(block) == in.index.BlockLen(i)
}

// fill reads until buf is full or src ends, which is io.EOF.
func fill(ctx context.Context, src io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf); {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, err := src.Read(buf[n:])
		if m < 0 || m > len(buf)-n {
			return n, errors.New("the reader returned an impossible count")
		}
		n += m
		if err != nil {
			return n, err
		}
		if idle++; m > 0 {
			idle = 0
		} else if idle == 100 {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}
