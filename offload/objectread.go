package offload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
)

// Open implements Store. The content can be read as long as ctx lasts.
func (s *ObjectStore) Open(ctx context.Context, rec Record) (Content, error) {
	c, err := s.openDigest(ctx, rec.Digest)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("its bytes are gone: %w", ErrCorrupt)
		if _, _, gone := s.records.read(ctx, rec.Session, rec.ID); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, err)
	}
	return c, nil
}

func (s *ObjectStore) openDigest(ctx context.Context, digest string) (*objectContent, error) {
	if len(digest) <= len(digestPrefix) {
		return nil, jetstream.ErrMsgNotFound
	}
	b, err := s.blob(ctx, digest[len(digestPrefix):])
	switch {
	case err != nil:
		return nil, err
	case b.Deleted:
		return nil, jetstream.ErrMsgNotFound
	case b.index == nil:
		return nil, fmt.Errorf("another client replaced its object, put it again: %w", ErrCorrupt)
	}
	c := &objectContent{s: s, b: b, ctx: ctx, last: -1, idle: make(chan *feed, 1)}
	c.idle <- &feed{s: s, b: b}
	c.index, c.load = b.index, c.loadBlock
	return c, nil
}

// putContent is the content that a Put is about to record: what is still in
// memory, and the rest from the server.
func (s *ObjectStore) putContent(ctx context.Context, in *intake) Content {
	stored := sync.OnceValues(func() (*objectContent, error) {
		return s.openDigest(ctx, digestPrefix+in.digest)
	})
	c := &putContent{}
	c.index = in.index
	c.load = func(i int, buf []byte) ([]byte, error) {
		if block, ok := in.block(i); ok {
			return append([]byte(nil), block...), nil
		}
		from, err := stored()
		if err != nil {
			return nil, err
		}
		c.stored = from
		return from.loadBlock(i, buf)
	}
	return c
}

type putContent struct {
	blocks
	stored *objectContent
}

func (c *putContent) Close() error {
	if c.stored != nil {
		return c.stored.Close()
	}
	return nil
}

// objectContent is a Content in an object. Single blocks are got one by one;
// whoever reads one after the other is fed ahead.
type objectContent struct {
	blocks
	s *ObjectStore
	b *blob
	// ctx is Open's, because ReadAt has none: it ends the reading.
	ctx  context.Context
	idle chan *feed // holds the feed while nobody uses it; empty once closed
	all  atomic.Pointer[[][]byte]

	mu   sync.Mutex
	last int // the block read last
}

// Close implements Content.
func (c *objectContent) Close() error {
	select {
	case f := <-c.idle:
		return f.stop()
	default:
		return nil
	}
}

func (c *objectContent) loadBlock(i int, _ []byte) ([]byte, error) {
	if c.b.seqs == nil {
		return c.loadSmall(i)
	}
	if c.isNext(i) {
		select {
		case f := <-c.idle:
			data, err := f.take(c.ctx, i)
			c.idle <- f
			if data != nil || err != nil {
				return data, err
			}
		default: // another goroutine is being fed
		}
	}
	m, err := c.s.api.get(c.ctx, "OBJ_"+c.s.bucket, msgRequest{Seq: c.b.seqs[i]})
	return c.chunk(i, m, err)
}

func (c *objectContent) isNext(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := i == c.last+1 && i > 0
	c.last = i
	return next
}

// loadSmall reads an object whose chunks are not noted: there are few of them,
// so all are read at once.
func (c *objectContent) loadSmall(i int) ([]byte, error) {
	if all := c.all.Load(); all != nil {
		return (*all)[i], nil
	}
	if c.b.Chunks == 1 {
		m, err := c.s.api.get(c.ctx, "OBJ_"+c.s.bucket, msgRequest{Last: c.s.chunkSubject(c.b.NUID)})
		return c.chunk(i, m, err)
	}
	all := make([][]byte, 0, c.b.Chunks)
	r := c.s.newChunkReader(c.ctx, &c.b.ObjectInfo)
	defer r.Close()
	for range c.b.Chunks {
		data, err := r.next()
		if err != nil {
			return nil, fmt.Errorf("read block %d: %w", i, err)
		}
		all = append(all, data)
	}
	c.all.Store(&all)
	return all[i], nil
}

// chunk is the answer to a request for block i.
func (c *objectContent) chunk(i int, m storedMsg, err error) ([]byte, error) {
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, fmt.Errorf("read block %d: its chunk is gone: %w", i, ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("read block %d: %w", i, err)
	}
	c.s.reads.Add(1)
	return m.data, nil
}
