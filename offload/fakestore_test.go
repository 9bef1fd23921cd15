package offload

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
)

// fakeStore is a Store for the tests of this package, which cannot import
// offload/mem. It has no quota and no tombstones.
type fakeStore struct {
	cfg       StoreConfig
	mu        sync.Mutex
	artifacts map[[2]string]fakeArtifact // by session and id
}

type fakeArtifact struct {
	Record
	data  []byte
	index *index.Index
}

func newFakeStore(cfg StoreConfig) *fakeStore {
	cfg.TTL = cmp.Or(cfg.TTL, time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &fakeStore{cfg: cfg, artifacts: map[[2]string]fakeArtifact{}}
}

func (s *fakeStore) Put(_ context.Context, rec Record, src io.Reader, summarize func(*Record, Content) error) (Record, error) {
	a := fakeArtifact{Record: rec}
	var err error
	if a.data, err = io.ReadAll(src); err != nil {
		return Record{}, err
	}
	if s.cfg.Quota > 0 && int64(len(a.data)) > s.cfg.Quota {
		return Record{}, ErrQuota
	}
	w := index.NewIndexer()
	for block := range slices.Chunk(a.data, index.BlockSize) {
		w.Block(block)
	}
	x, digest := w.Finish()
	a.index = x
	a.Size, a.Chars, a.Lines, a.Digest = x.Size(), x.TotalChars(), x.Lines(), DigestPrefix+digest
	a.Tokens = TokensOfRunes(a.Chars)
	a.CreatedAt = s.cfg.Now()
	a.ExpiresAt = a.CreatedAt.Add(s.cfg.TTL)
	if summarize != nil {
		if err := summarize(&a.Record, a.content()); err != nil {
			return Record{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.artifacts[[2]string{rec.Session, rec.ID}]; ok {
		if old.Digest != a.Digest {
			return Record{}, ErrExists
		}
		return old.Record, nil
	}
	s.artifacts[[2]string{rec.Session, rec.ID}] = a
	return a.Record, nil
}

func (a fakeArtifact) content() Content { return blocks.NewContent(bytes.NewReader(a.data), a.index) }

func (s *fakeStore) Get(_ context.Context, session, id string) (Record, error) {
	a, err := s.get(session, id)
	return a.Record, err
}

func (s *fakeStore) get(session, id string) (fakeArtifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.artifacts[[2]string{session, id}]
	switch {
	case !ok:
		return fakeArtifact{}, ErrNotFound
	case !s.cfg.Now().Before(a.ExpiresAt):
		return fakeArtifact{}, ErrExpired
	}
	return a, nil
}

func (s *fakeStore) Open(_ context.Context, rec Record) (Content, error) {
	a, err := s.get(rec.Session, rec.ID)
	if err != nil {
		return nil, err
	}
	return a.content(), nil
}

func (s *fakeStore) List(_ context.Context, session string) iter.Seq2[Record, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var recs []Record
	for _, a := range s.artifacts {
		if (session == "" || a.Session == session) && s.cfg.Now().Before(a.ExpiresAt) {
			recs = append(recs, a.Record)
		}
	}
	slices.SortFunc(recs, func(a, b Record) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return func(yield func(Record, error) bool) {
		for _, rec := range recs {
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (s *fakeStore) Delete(_ context.Context, session, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.artifacts, [2]string{session, id})
	return nil
}

func (*fakeStore) Sweep(context.Context, time.Duration) (SweepReport, error) {
	return SweepReport{}, nil
}
