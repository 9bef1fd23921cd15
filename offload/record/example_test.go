package record_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Store is an artifact store. It stores entries and blobs in two maps; replace them with your
// database. A test runs the suite in offload/storetest on it.
type Store struct {
	life record.Lifecycle

	mu      sync.Mutex
	entries map[string]*record.Entry // by session.id
	blobs   map[string]*blob         // by digest
}

type blob struct {
	data  []byte
	index *index.Index
	put   time.Time
}

func New(cfg offload.StoreConfig) *Store {
	return &Store{life: record.NewLifecycle(cfg), entries: map[string]*record.Entry{}, blobs: map[string]*blob{}}
}

func (s *Store) Put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	if err := record.CheckKey(rec.Session, rec.ID); err != nil {
		return offload.Record{}, err
	}
	var data bytes.Buffer
	in, err := record.Ingest(ctx, src, func(block []byte) error {
		data.Write(block)
		return nil
	})
	if err != nil {
		return offload.Record{}, err
	}
	in.Release()
	s.life.Complete(&rec, in.Index, in.Digest)
	if summarize != nil {
		if err := summarize(&rec, record.NewContent(bytes.NewReader(data.Bytes()), in.Index)); err != nil {
			return offload.Record{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var used int64
	for digest, b := range s.blobs {
		if digest != rec.Digest {
			used += b.index.Size()
		}
	}
	if err := s.life.CheckQuota(used, rec.Size); err != nil {
		return offload.Record{}, err
	}
	key := rec.Session + "." + rec.ID
	e, _, err := s.life.Put(s.entries[key], rec)
	if err != nil {
		return offload.Record{}, err
	}
	s.entries[key] = &e
	s.blobs[rec.Digest] = &blob{data.Bytes(), in.Index, s.life.Now()}
	return e.Record, nil
}

func (s *Store) Get(ctx context.Context, session, id string) (offload.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[session+"."+id]
	if err := s.life.Check(e); err != nil {
		return offload.Record{}, err
	}
	s.life.Refresh(e)
	return e.Record, nil
}

func (s *Store) Open(ctx context.Context, rec offload.Record) (offload.Content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blobs[rec.Digest]
	if err := s.life.Check(s.entries[rec.Session+"."+rec.ID]); err != nil {
		return nil, err
	}
	if b == nil {
		return nil, offload.ErrCorrupt
	}
	return record.NewContent(bytes.NewReader(b.data), b.index), nil
}

func (s *Store) List(ctx context.Context, session string) iter.Seq2[offload.Record, error] {
	return s.life.List(func(yield func(record.Entry, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range s.entries {
			if (session == "" || session == e.Session) && !yield(*e, nil) {
				return
			}
		}
	})
}

func (s *Store) Delete(ctx context.Context, session, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[session+"."+id]; e == nil || e.Tombstone {
		return offload.ErrNotFound
	}
	delete(s.entries, session+"."+id)
	return nil
}

func (s *Store) Sweep(ctx context.Context, grace time.Duration) (report offload.SweepReport, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := map[string]bool{}
	for key, e := range s.entries {
		switch {
		case !s.life.Expired(e):
			used[e.Digest] = true
		case !e.Tombstone:
			e.MakeTombstone()
			report.Records++
		case s.life.Forgotten(e):
			delete(s.entries, key)
		}
	}
	for digest, b := range s.blobs {
		if !used[digest] && s.life.Age(b.put) >= grace {
			delete(s.blobs, digest)
			report.Blobs++
			report.Bytes += b.index.Size()
		}
	}
	return report, nil
}

// Write a store of your own: the six methods of offload.Store, with the parts of this package.
func Example() {
	ctx := context.Background()
	store := New(offload.StoreConfig{TTL: time.Hour})
	rec := offload.Record{Session: "s1"}
	rec.ID = "toolu_1"
	rec, err := store.Put(ctx, rec, strings.NewReader("a long result"), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(rec.Size, "bytes,", rec.Lines, "line")
	// Output: 13 bytes, 1 line
}
