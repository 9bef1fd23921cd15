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

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Open implements offload.Store. The content is readable until ctx ends.
func (s *Store) Open(ctx context.Context, rec offload.Record) (offload.Content, error) {
	c, err := s.openDigest(ctx, rec.Digest, rec.IndexDigest)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("its bytes are gone: %w", offload.ErrCorrupt)
		if _, _, gone := s.records.read(ctx, rec.Session, rec.ID); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, err)
	}
	return c, nil
}

// openDigest opens the bytes with a digest, if their index has indexDigest.
func (s *Store) openDigest(ctx context.Context, digest, indexDigest string) (*content, error) {
	digest, ok := strings.CutPrefix(digest, offload.DigestPrefix)
	if !ok || digest == "" {
		return nil, jetstream.ErrMsgNotFound
	}
	b, ok := s.cache.Get(digest)
	if !ok || b.indexDigest != indexDigest { // perhaps it was repaired
		found, err := s.blob(ctx, digest)
		if b, err = s.addToCache(digest, found, err); err != nil {
			return nil, err
		}
	}
	if b.indexDigest != indexDigest {
		return nil, fmt.Errorf("another client changed the description of its bytes; put the artifact again: %w", offload.ErrCorrupt)
	}
	c := &content{s: s, ctx: ctx, idle: make(chan *prefetcher, 1)}
	c.b.Store(b)
	c.idle <- &prefetcher{s: s}
	c.Reader = blocks.NewReader(b.index, &b.recent, c.loadBlock)
	return c, nil
}

// addToCache adds an object that was looked up to the cache, unless it is missing.
func (s *Store) addToCache(digest string, found *blob, err error) (*cachedBlob, error) {
	switch {
	case err != nil:
		return nil, err
	case found.Deleted:
		return nil, jetstream.ErrMsgNotFound
	case found.index == nil:
		return nil, fmt.Errorf("another client replaced the object; put the artifact again: %w", offload.ErrCorrupt)
	}
	found.data, found.Metadata = nil, nil // decoded, so the cache needs no copy
	b := &cachedBlob{digest: digest, blob: found}
	if b.index.Blocks() <= maxCachedIndex {
		s.cache.Add(digest, b)
	}
	return b, nil
}

// putContent is the content of a Put that has no record yet. It reads the last blocks
// from memory and the rest from the server.
type putContent struct {
	*blocks.Reader
	stored atomic.Pointer[content] // nil until a block was read from the server
}

func (s *Store) newPutContent(ctx context.Context, in *record.Ingested) *putContent {
	open := sync.OnceValues(func() (*content, error) {
		return s.openDigest(ctx, offload.DigestPrefix+in.Digest, indexDigest(in))
	})
	c := &putContent{}
	c.Reader = blocks.NewReader(in.Index, &blocks.Cache[int, []byte]{}, func(i int, buf []byte) ([]byte, error) {
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

// Close implements offload.Content.
func (c *putContent) Close() error {
	if stored := c.stored.Load(); stored != nil {
		return stored.Close()
	}
	return nil
}

// content is an offload.Content in an object. It requests single blocks, and
// prefetches for sequential reads.
type content struct {
	*blocks.Reader
	s *Store
	b atomic.Pointer[cachedBlob] // replaced if the content was put again
	// ctx is that of Open, because ReadAt has none.
	ctx  context.Context
	idle chan *prefetcher // holds the prefetcher while it is unused; empty after Close
	all  atomic.Pointer[[][]byte]

	mu   sync.Mutex
	last int // the block read last
	run  int // how many blocks were read in sequence
}

// Close implements Content.
func (c *content) Close() error {
	select {
	case p := <-c.idle:
		p.stop()
	default:
	}
	return nil
}

// loadBlock reads a block. If its chunk is missing, loadBlock looks up the object
// again: a sweep may have removed it, and a Put stored it again with other sequences.
func (c *content) loadBlock(i int, _ []byte) ([]byte, error) {
	b, ahead := c.b.Load(), c.inSequence(i)
	data, err := c.loadFrom(b, i, ahead)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		found, e := c.s.latestBlob(c.ctx, b.digest)
		if again, e := c.s.addToCache(b.digest, found, e); e == nil && again.seq != b.seq && again.indexDigest == b.indexDigest {
			c.b.Store(again)
			data, err = c.loadFrom(again, i, ahead)
		}
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("read block %d: its chunk is missing: %w", i, offload.ErrCorrupt)
	}
	return data, err
}

// loadFrom reads a block of an object. ErrMsgNotFound.
func (c *content) loadFrom(b *cachedBlob, i int, ahead bool) ([]byte, error) {
	if b.seqs == nil {
		return c.loadSmall(b, i)
	}
	if ahead {
		select {
		case p := <-c.idle:
			data := p.block(c.ctx, b.blob, i)
			c.idle <- p
			if data != nil {
				return data, nil
			}
		default: // another goroutine uses it
		}
	}
	return c.get(i, jsapi.Get{Sequence: b.seqs[i]})
}

// inSequence reports whether block i is the third in sequence. Reading a few lines
// takes up to two blocks and should not prefetch more.
func (c *content) inSequence(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i != c.last+1 {
		c.run = 0
	}
	c.last = i
	c.run++
	return c.run > 2
}

// loadSmall reads all chunks of a small object, whose meta message does not list
// their sequences.
func (c *content) loadSmall(b *cachedBlob, i int) ([]byte, error) {
	if all := c.all.Load(); all != nil {
		return (*all)[i], nil
	}
	if b.Chunks == 1 {
		return c.get(i, jsapi.Get{LastBySubject: c.s.chunkSubject(b.NUID)})
	}
	all := make([][]byte, 0, b.Chunks)
	for m, err := range c.s.messages(c.ctx, b.NUID, 1) {
		if err != nil {
			return nil, fmt.Errorf("read block %d: %w", i, err)
		}
		c.s.reads.Add(1)
		if all = append(all, m.Data); len(all) == int(b.Chunks) {
			break
		}
	}
	if len(all) != int(b.Chunks) {
		return nil, fmt.Errorf("read block %d: the object has %d of %d chunks: %w", i, len(all), b.Chunks, jetstream.ErrMsgNotFound)
	}
	c.all.Store(&all)
	return all[i], nil
}

// get requests the single block i.
func (c *content) get(i int, get jsapi.Get) ([]byte, error) {
	m, err := c.s.api.GetMessage(c.ctx, c.s.stream(), get)
	if err != nil {
		return nil, fmt.Errorf("read block %d: %w", i, err)
	}
	c.s.reads.Add(1)
	return m.Data, nil
}
