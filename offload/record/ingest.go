package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/stevedore-bus/stevedore/offload/index"
)

// KeptBlocks is how many blocks an ingest keeps in memory: it reads one while it
// writes and indexes others.
const KeptBlocks = 4

var blockPool = sync.Pool{New: func() any { return new([index.BlockSize]byte) }}

// Ingested is the result of one pass over a content.
type Ingested struct {
	Index  *index.Index
	Digest string // the hexadecimal SHA-256

	blocks [KeptBlocks][]byte
	read   int // blocks read
}

// Ingest reads src to its end and passes each block to sink, which must not keep
// it. All blocks except the last one have index.BlockSize bytes. Ingest indexes and
// hashes a block concurrently with sink. The caller calls Release.
func Ingest(ctx context.Context, src io.Reader, sink func(block []byte) error) (*Ingested, error) {
	in := &Ingested{}
	if err := in.run(ctx, src, sink); err != nil {
		in.Release()
		return nil, err
	}
	return in, nil
}

// Release frees the blocks. Index and Digest stay valid.
func (in *Ingested) Release() {
	for i, buf := range in.blocks {
		if buf != nil {
			blockPool.Put((*[index.BlockSize]byte)(buf[:index.BlockSize]))
			in.blocks[i] = nil
		}
	}
}

// Block returns block i if it is one of the last blocks, which are still in memory.
func (in *Ingested) Block(i int) ([]byte, bool) {
	if i < 0 || i >= in.read || i < in.read-KeptBlocks {
		return nil, false
	}
	block := in.blocks[i%KeptBlocks]
	return block, len(block) == in.Index.BlockLen(i)
}

func (in *Ingested) run(ctx context.Context, src io.Reader, sink func([]byte) error) (err error) {
	w := index.NewIndexer()
	var (
		todo     = make(chan []byte, KeptBlocks)
		indexed  = make(chan struct{}, KeptBlocks)
		indexing sync.WaitGroup
	)
	defer func() {
		close(todo)
		indexing.Wait()
		if err == nil {
			in.Index, in.Digest = w.Finish()
		}
	}()
	for last := false; !last; {
		slot := in.read % KeptBlocks
		if in.read >= KeptBlocks {
			<-indexed // the previous block in this slot
		} else {
			in.blocks[slot] = blockPool.Get().(*[index.BlockSize]byte)[:]
		}
		n, err := fill(ctx, src, in.blocks[slot][:index.BlockSize])
		if last = err == io.EOF; err != nil && !last {
			return fmt.Errorf("read the content: %w", err)
		}
		in.blocks[slot] = in.blocks[slot][:n] // n is 0 if the content ended at a block boundary
		if n == 0 {
			break
		}
		block := in.blocks[slot]
		if in.read == 0 && !last {
			indexing.Go(func() {
				for block := range todo {
					w.Block(block)
					indexed <- struct{}{}
				}
			})
		}
		// Sink comes first: it usually starts a write and returns.
		only := in.read == 0 && last
		if in.read++; !only {
			todo <- block
		}
		if err := sink(block); err != nil {
			return err
		}
		if only {
			w.Block(block)
		}
	}
	return nil
}

// fill reads until buf is full, or until src ends: io.EOF.
func fill(ctx context.Context, src io.Reader, buf []byte) (n int, err error) {
	for empty := 0; n < len(buf); {
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
		if empty++; m > 0 {
			empty = 0
		} else if empty == 100 {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}
