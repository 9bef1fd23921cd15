package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/object"
)

// openStore opens the artifact store of the installation.
func (s *simulation) openStore(b *bus.Bus) offload.Store {
	open := func() (offload.Store, error) {
		if s.artifacts != "" {
			return disk.Open(s.artifacts, offload.StoreConfig{})
		}
		return object.Open(s.t.Context(), b.JetStream(), object.Config{Bucket: b.BucketName(bus.BlobsBucket), Records: b.BucketName(bus.ArtifactsBucket)})
	}
	for {
		store, err := open()
		if err == nil {
			s.stores = append(s.stores, store)
			return store
		}
		time.Sleep(time.Second)
	}
}

// storeFaults are those of the artifact store of all processes.
type storeFaults struct {
	mu    sync.Mutex
	fails bool
	left  int // writes before that
	fault storeFault
}

type storeFault int

const (
	writesNothing storeFault = iota
	writesAll                // and reports an error
	isFull
)

func (f *storeFaults) fail(after int, fault storeFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.left, f.fault = true, after, fault
}

func (f *storeFaults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = false
}

// next returns the fault of the next write, if it has one.
func (f *storeFaults) next() (fault storeFault, fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	return f.fault, f.fails && f.left < 0
}

// flakyStore is the store of a process.
type flakyStore struct {
	offload.Store
	s *simulation
}

// Put implements offload.Store.
func (f *flakyStore) Put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	fault, fails := f.s.disk.next()
	if fails {
		f.s.ledger.refuse(rec.ID, fault == isFull)
	}
	switch {
	case fails && fault == writesNothing:
		return offload.Record{}, errors.New("input/output error")
	case fails && fault == isFull:
		return offload.Record{}, fmt.Errorf("put: %w", offload.ErrQuota)
	}
	stored, err := f.Store.Put(ctx, rec, src, summarize)
	if fails {
		err = errors.Join(err, errors.New("input/output error"))
	}
	return stored, err
}
