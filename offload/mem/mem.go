// Package mem is an artifact store in memory: for tests, and for agents whose
// artifacts may end with the process.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Store is an offload.Store in memory.
type Store struct {
	life record.Lifecycle

	mu      sync.Mutex
	entries map[key]*record.Entry
	blobs   map[string]*blob // by digest
}

type key struct{ session, id string }

type blob struct {
	data  []byte
	index *index.Index
	put   time.Time // when it was last put
}

func (b *blob) content() offload.Content { return record.NewContent(bytes.NewReader(b.data), b.index) }

// New returns an empty Store.
func New(cfg offload.StoreConfig) *Store {
	return &Store{life: record.NewLifecycle(cfg), entries: map[key]*record.Entry{}, blobs: map[string]*blob{}}
}

// Put implements offload.Store.
func (s *Store) Put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	rec, err := s.put(ctx, rec, src, summarize)
	if err != nil {
		return offload.Record{}, fmt.Errorf("put artifact %q: %w", rec.ID, err)
	}
	return rec, nil
}

func (s *Store) put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	if err := record.CheckKey(rec.Session, rec.ID); err != nil {
		return rec, err
	}
	b := &blob{}
	in, err := record.Ingest(ctx, src, func(block []byte) error {
		// The content may be stored already, unless it alone exceeds the quota.
		if b.data = append(b.data, block...); s.life.CheckQuota(0, int64(len(b.data))) != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.life.CheckQuota(s.usedLocked(), int64(len(b.data)))
		}
		return nil
	})
	if err != nil {
		return rec, err
	}
	in.Release()
	b.index = in.Index
	s.life.Complete(&rec, in.Index, in.Digest)
	if summarize != nil {
		if err := summarize(&rec, b.content()); err != nil {
			return rec, fmt.Errorf("summarize: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.blobs[rec.Digest]; old != nil {
		b = old
	} else if err := s.life.CheckQuota(s.usedLocked(), rec.Size); err != nil {
		return rec, err
	}
	k := key{rec.Session, rec.ID}
	e, write, err := s.life.Put(s.entries[k], rec)
	if err != nil {
		return rec, err
	}
	if write {
		s.entries[k] = &e
	}
	b.put = s.life.Now()
	s.blobs[rec.Digest] = b
	return e.Record, nil
}

func (s *Store) usedLocked() (n int64) {
	for _, b := range s.blobs {
		n += int64(len(b.data))
	}
	return n
}

// Get implements offload.Store.
func (s *Store) Get(_ context.Context, session, id string) (offload.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key{session, id}]
	if err := s.life.Check(e); err != nil {
		return offload.Record{}, fmt.Errorf("get artifact %q: %w", id, err)
	}
	s.life.Refresh(e)
	return e.Record, nil
}

// Open implements offload.Store.
func (s *Store) Open(_ context.Context, rec offload.Record) (offload.Content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blobs[rec.Digest]
	if b == nil {
		err := s.life.Check(s.entries[key{rec.Session, rec.ID}])
		if err == nil {
			err = offload.ErrCorrupt
		}
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, err)
	}
	return b.content(), nil
}

// List implements offload.Store.
func (s *Store) List(_ context.Context, session string) iter.Seq2[offload.Record, error] {
	return s.life.List(func(yield func(record.Entry, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for k, e := range s.entries {
			if (session == "" || k.session == session) && !yield(*e, nil) {
				return
			}
		}
	})
}

// Delete implements offload.Store.
func (s *Store) Delete(_ context.Context, session, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{session, id}
	if e := s.entries[k]; e == nil || e.Tombstone {
		return fmt.Errorf("delete artifact %q: %w", id, offload.ErrNotFound)
	}
	delete(s.entries, k)
	return nil
}

// Sweep implements offload.Store.
func (s *Store) Sweep(_ context.Context, grace time.Duration) (offload.SweepReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var report offload.SweepReport
	used := map[string]bool{}
	for k, e := range s.entries {
		switch {
		case !s.life.Expired(e):
			used[e.Digest] = true
		case !e.Tombstone:
			e.MakeTombstone()
			report.Records++
		case s.life.Forgotten(e):
			delete(s.entries, k)
		}
	}
	for digest, b := range s.blobs {
		if !used[digest] && s.life.Age(b.put) >= grace {
			delete(s.blobs, digest)
			report.Blobs++
			report.Bytes += int64(len(b.data))
		}
	}
	return report, nil
}
