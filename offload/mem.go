package offload

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload/index"
)

// MemStore is a Store in memory: for tests, and for agents that need nothing
// to outlive them.
type MemStore struct {
	cfg     StoreConfig
	buffers buffers

	mu      sync.Mutex
	entries map[memKey]*entry
	blobs   map[string]*memBlob // by digest
}

type memKey struct{ session, id string }

type memBlob struct {
	data  []byte
	index *index.Index
	since time.Time // when it was last put
}

// NewMem returns an empty MemStore.
func NewMem(cfg StoreConfig) *MemStore {
	return &MemStore{cfg: cfg.withDefaults(), entries: map[memKey]*entry{}, blobs: map[string]*memBlob{}}
}

// Put implements Store.
func (s *MemStore) Put(ctx context.Context, rec Record, src io.Reader, summarize func(*Record, Content) error) (Record, error) {
	rec, err := s.put(ctx, rec, src, summarize)
	if err != nil {
		return Record{}, fmt.Errorf("put artifact %q: %w", rec.ID, err)
	}
	return rec, nil
}

func (s *MemStore) put(ctx context.Context, rec Record, src io.Reader, summarize func(*Record, Content) error) (Record, error) {
	if err := checkKey(rec.Session, rec.ID); err != nil {
		return rec, err
	}
	var data []byte
	in, err := s.buffers.take(ctx, src, func(block []byte) error {
		if s.cfg.Quota > 0 && int64(len(data)+len(block)) > s.cfg.Quota {
			return s.cfg.overQuota(s.used(), int64(len(data)+len(block)))
		}
		data = append(data, block...)
		return nil
	}, nil)
	if err != nil {
		return rec, err
	}
	defer s.buffers.release(in)
	s.cfg.complete(&rec, in.index, in.digest)
	if err := s.keep(rec.Digest, data, in.index); err != nil {
		return rec, err
	}
	if summarize != nil {
		if err := summarize(&rec, newMemContent(data, in.index)); err != nil {
			return rec, fmt.Errorf("summarize: %w", err)
		}
	}
	return s.record(rec, data, in.index)
}

// keep stores a blob, or renews the one that is there.
func (s *MemStore) keep(digest string, data []byte, x *index.Index) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.blobs[digest]; ok {
		b.since = s.cfg.now()
		return nil
	}
	if err := s.cfg.overQuota(s.usedLocked(), x.Size()); err != nil {
		return err
	}
	s.blobs[digest] = &memBlob{data: data, index: x, since: s.cfg.now()}
	return nil
}

func (s *MemStore) record(rec Record, data []byte, x *index.Index) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.now()
	key := memKey{rec.Session, rec.ID}
	if old := s.entries[key]; old != nil && !old.expired(now) {
		if old.Digest != rec.Digest {
			return rec, ErrExists
		}
		s.cfg.refresh(old, now)
		rec = old.Record
	} else {
		s.entries[key] = &entry{Record: rec}
	}
	if s.blobs[rec.Digest] == nil { // swept since
		s.blobs[rec.Digest] = &memBlob{data: data, index: x, since: now}
	}
	return rec, nil
}

func (s *MemStore) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usedLocked()
}

func (s *MemStore) usedLocked() (n int64) {
	for _, b := range s.blobs {
		n += int64(len(b.data))
	}
	return n
}

// Get implements Store.
func (s *MemStore) Get(_ context.Context, session, id string) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, now := s.entries[memKey{session, id}], s.cfg.now()
	switch {
	case e == nil:
		return Record{}, fmt.Errorf("get artifact %q: %w", id, ErrNotFound)
	case e.expired(now):
		return Record{}, fmt.Errorf("get artifact %q: %w", id, ErrExpired)
	}
	s.cfg.refresh(e, now)
	return e.Record, nil
}

// Open implements Store.
func (s *MemStore) Open(_ context.Context, rec Record) (Content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blobs[rec.Digest]
	if b == nil {
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, s.goneLocked(rec))
	}
	return newMemContent(b.data, b.index), nil
}

// goneLocked says why a record has no bytes.
func (s *MemStore) goneLocked(rec Record) error {
	switch e := s.entries[memKey{rec.Session, rec.ID}]; {
	case e == nil:
		return ErrNotFound
	case e.expired(s.cfg.now()):
		return ErrExpired
	}
	return ErrCorrupt
}

// List implements Store.
func (s *MemStore) List(_ context.Context, session string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, rec := range s.list(session) {
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (s *MemStore) list(session string) (recs []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.now()
	for key, e := range s.entries {
		if (session == "" || key.session == session) && !e.expired(now) {
			recs = append(recs, e.Record)
		}
	}
	slices.SortFunc(recs, oldestFirst)
	return recs
}

// Delete implements Store.
func (s *MemStore) Delete(_ context.Context, session, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := memKey{session, id}
	if e := s.entries[key]; e == nil || e.Tombstone {
		return fmt.Errorf("delete artifact %q: %w", id, ErrNotFound)
	}
	delete(s.entries, key)
	return nil
}

// Sweep implements Store.
func (s *MemStore) Sweep(_ context.Context, grace time.Duration) (SweepReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var report SweepReport
	now, named := s.cfg.now(), map[string]bool{}
	for key, e := range s.entries {
		switch {
		case !e.expired(now):
			named[e.Digest] = true
		case !e.Tombstone:
			e.bury()
			report.Records++
		case s.cfg.forgotten(e, now):
			delete(s.entries, key)
		}
	}
	for digest, b := range s.blobs {
		if !named[digest] && now.Sub(b.since) >= grace {
			delete(s.blobs, digest)
			report.Blobs++
			report.Bytes += int64(len(b.data))
		}
	}
	return report, nil
}

// memContent is a Content in memory.
type memContent struct {
	*bytes.Reader
	data  []byte
	index *index.Index
}

func newMemContent(data []byte, x *index.Index) memContent {
	return memContent{bytes.NewReader(data), data, x}
}

// Block implements index.BlockReader.
func (c memContent) Block(i int) ([]byte, error) {
	return c.data[i*index.BlockSize:][:c.index.BlockLen(i)], nil
}

func (memContent) Close() error { return nil }

func (c memContent) Index() *index.Index { return c.index }
