package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Open implements Store. The content can be read as long as ctx lasts.
func (s *Store) Open(ctx context.Context, rec offload.Record) (offload.Content, error) {
	c, err := s.openDigest(ctx, rec.Digest)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("its bytes are gone: %w", offload.ErrCorrupt)
		if _, _, gone := s.records.read(ctx, rec.Session, rec.ID); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, err)
	}
	c.b.Load().rec.Store(&rec)
	return c, nil
}

// known implements knower.
func (s *Store) CachedRecord(session, id string) (offload.Record, bool) {
	return s.opened.known(session, id)
}

func (s *Store) openDigest(ctx context.Context, digest string) (*objectContent, error) {
	digest, ok := strings.CutPrefix(digest, offload.DigestPrefix)
	if !ok || digest == "" {
		return nil, jetstream.ErrMsgNotFound
	}
	b := s.opened.get(digest)
	if b == nil {
		found, err := s.blob(ctx, digest)
		if b, err = s.opens(digest, found, err); err != nil {
			return nil, err
		}
	}
	c := &objectContent{s: s, ctx: ctx, idle: make(chan *feed, 1)}
	c.b.Store(b)
	c.idle <- &feed{s: s}
	c.Reader = blocks.NewReader(b.index, b.recent, c.loadBlock)
	return c, nil
}

// opens takes an object that was looked up, or was not found, for reading.
func (s *Store) opens(digest string, found *blob, err error) (*openBlob, error) {
	switch {
	case err != nil:
		return nil, err
	case found.Deleted:
		return nil, jetstream.ErrMsgNotFound
	case found.index == nil:
		return nil, fmt.Errorf("another client replaced its object, put it again: %w", offload.ErrCorrupt)
	}
	found.data, found.Metadata = nil, nil // decoded; not to be kept in memory
	b := &openBlob{digest: digest, blob: found, recent: &blocks.Cache{}}
	s.opened.add(b)
	return b, nil
}

// putContent is the content that a Put is about to record: what is still in
// memory, and the rest from the server.
type putContent struct {
	*blocks.Reader
	stored atomic.Pointer[objectContent] // nil until something of it was read
}

func (s *Store) newPutContent(ctx context.Context, in *record.Ingested) *putContent {
	open := sync.OnceValues(func() (*objectContent, error) {
		return s.openDigest(ctx, offload.DigestPrefix+in.Digest)
	})
	c := &putContent{}
	c.Reader = blocks.NewReader(in.Index, &blocks.Cache{}, func(i int, buf []byte) ([]byte, error) {
		if block, ok := in.Block(i); ok {
			return bytes.Clone(block), nil
		}
		stored, err := open()
		if err != nil {
			return nil, err
		}
		c.stored.Store(stored)
		return stored.loadBlock(i, buf)
	})
	return c
}

// Close closes what was opened of the store.
func (c *putContent) Close() error {
	if stored := c.stored.Load(); stored != nil {
		return stored.Close()
	}
	return nil
}

// objectContent is a Content in an object. Single blocks are got one by one;
// whoever reads one after the other is fed ahead.
type objectContent struct {
	*blocks.Reader
	s *Store
	b atomic.Pointer[openBlob] // another one once the content was put again
	// ctx is Open's, because ReadAt has none: it ends the reading.
	ctx  context.Context
	idle chan *feed // holds the feed while nobody uses it; empty once closed
	all  atomic.Pointer[[][]byte]

	mu   sync.Mutex
	last int // the block read last
	run  int // how many were read one after the other
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

// loadBlock reads a block. One that is gone is looked for once more: a sweep may
// have removed the object and a Put brought it back under other sequences.
func (c *objectContent) loadBlock(i int, _ []byte) ([]byte, error) {
	b, ahead := c.b.Load(), c.inSequence(i)
	data, err := c.loadFrom(b, i, ahead)
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return data, err
	}
	gone := fmt.Errorf("read block %d: its chunk is gone: %w", i, offload.ErrCorrupt)
	found, err := c.s.latestBlob(c.ctx, b.digest)
	if err == nil && found.seq == b.seq {
		return nil, gone
	}
	switch again, err := c.s.opens(b.digest, found, err); {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, gone
	case err != nil:
		return nil, fmt.Errorf("read block %d: %w", i, err)
	default:
		b = again
		c.b.Store(b)
	}
	if data, err = c.loadFrom(b, i, ahead); errors.Is(err, jetstream.ErrMsgNotFound) {
		err = gone
	}
	return data, err
}

// loadFrom reads a block of an object. ErrMsgNotFound.
func (c *objectContent) loadFrom(b *openBlob, i int, ahead bool) ([]byte, error) {
	if b.seqs == nil {
		return c.loadSmall(b, i)
	}
	if ahead {
		select {
		case f := <-c.idle:
			data, err := f.take(c.ctx, b.blob, i)
			c.idle <- f
			if data != nil || err != nil {
				return data, err
			}
		default: // another goroutine is being fed
		}
	}
	return c.get(i, msgRequest{Seq: b.seqs[i]})
}

// inSequence reports whether block i is the third in a row: who reads a few lines
// may need two, and must not set eight more on their way.
func (c *objectContent) inSequence(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i != c.last+1 {
		c.run = 0
	}
	c.last = i
	c.run++
	return c.run > 2
}

// loadSmall reads an object whose chunks are not noted: there are few of them,
// so all are read at once.
func (c *objectContent) loadSmall(b *openBlob, i int) ([]byte, error) {
	if all := c.all.Load(); all != nil {
		return (*all)[i], nil
	}
	if b.Chunks == 1 {
		return c.get(i, msgRequest{Last: c.s.chunkSubject(b.NUID)})
	}
	all := make([][]byte, 0, b.Chunks)
	r := c.s.newChunkReader(c.ctx, &b.ObjectInfo)
	defer r.Close()
	for range b.Chunks {
		data, err := r.next()
		if err != nil {
			return nil, fmt.Errorf("read block %d: %w", i, err)
		}
		all = append(all, data)
	}
	c.all.Store(&all)
	return all[i], nil
}

// get reads block i by itself.
func (c *objectContent) get(i int, req msgRequest) ([]byte, error) {
	m, err := c.s.api.get(c.ctx, "OBJ_"+c.s.bucket, req)
	if err != nil {
		return nil, fmt.Errorf("read block %d: %w", i, err)
	}
	c.s.reads.Add(1)
	return m.data, nil
}
