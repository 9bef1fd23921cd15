// Package storetest is the conformance suite of artifact stores. Every offload.Store
// must pass it:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness {
//			dir := t.TempDir()
//			return storetest.Harness{Open: func(t *testing.T, cfg offload.StoreConfig) offload.Store {
//				return mystore.New(dir, cfg)
//			}}
//		})
//	}
//
// The suite does not test durability, several processes, or remains of killed writes.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Harness gives the suite access to the store under test. Only Open is required;
// without the other functions, the suite skips what needs them.
type Harness struct {
	// Open opens the store. Each call opens the same data, as another process would.
	Open func(t *testing.T, cfg offload.StoreConfig) offload.Store
	// Volatile says that each call of Open returns a new, empty store.
	Volatile bool
	// Stored counts the contents that are stored, including incomplete ones.
	Stored func(t *testing.T) int
	// Corrupt changes a stored byte of block i.
	Corrupt func(t *testing.T, rec offload.Record, i int)
	// Lose removes the stored block i.
	Lose func(t *testing.T, rec offload.Record, i int)
}

// stored is Stored, or -1 if the harness cannot count.
func (h Harness) stored(t *testing.T) int {
	if h.Stored == nil {
		return -1
	}
	return h.Stored(t)
}

// checkStored checks how many contents were stored since there were before.
func (h Harness) checkStored(t *testing.T, before, want int, when string) {
	t.Helper()
	if got := h.stored(t) - before; h.Stored != nil && got != want {
		t.Errorf("%s: %d contents are stored, want %d", when, got, want)
	}
}

// Run runs the suite. It calls newHarness once for each test.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for name, test := range map[string]func(*testing.T, Harness){
		"RoundTrip":           testRoundTrip,
		"Record":              testRecord,
		"Summarize":           testSummarize,
		"PutAgain":            testPutAgain,
		"SameContentOnce":     testSameContentOnce,
		"SessionsAreSeparate": testSessionsAreSeparate,
		"ConcurrentSame":      testConcurrentSame,
		"ConcurrentOther":     testConcurrentOther,
		"ConcurrentReads":     testConcurrentReads,
		"FailedPut":           testFailedPut,
		"Expiry":              testExpiry,
		"RefreshOnRead":       testRefreshOnRead,
		"PutOverExpired":      testPutOverExpired,
		"List":                testList,
		"Delete":              testDelete,
		"Quota":               testQuota,
		"ConcurrentQuota":     testConcurrentQuota,
		"SweepKeepsYoung":     testSweepKeepsYoung,
		"SweepKeepsShared":    testSweepKeepsShared,
		"SweepRace":           testSweepRace,
		"Reopen":              testReopen,
		"Damage":              testDamage,
		"BadKeys":             testBadKeys,
	} {
		t.Run(name, func(t *testing.T) { test(t, newHarness(t)) })
	}
}

// Clock is a clock that a test can advance. Its zero value shows the current time.
type Clock struct {
	mu  sync.Mutex
	off time.Duration
}

// Now is for StoreConfig.Now.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// NewRecord returns a record to put.
func NewRecord(session, id string) offload.Record {
	return offload.Record{Session: session, Artifact: tools.Artifact{ID: id, Type: "TEXT"}, Metadata: map[string]string{"biz_id": id}}
}

// Text returns size bytes of text that compress badly, with some invalid UTF-8.
// Equal arguments give equal text.
func Text(size int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(size)))
	b := make([]byte, size)
	for i := range b {
		if b[i] = "abcdefghijklmnopqrstuvwxyz \n"[r.IntN(28)]; r.IntN(500) == 0 {
			b[i] = byte(r.IntN(256))
		}
	}
	return b
}

// Put puts data, and ends the test if that fails.
func Put(t testing.TB, s offload.Store, rec offload.Record, data []byte) offload.Record {
	t.Helper()
	out, err := s.Put(t.Context(), rec, bytes.NewReader(data), nil)
	if err != nil {
		t.Fatalf("put %s/%s of %d bytes: %v", rec.Session, rec.ID, len(data), err)
	}
	return out
}

// checkGet fails unless Get of an id returns the error.
func checkGet(t *testing.T, s offload.Store, session, id string, want error) {
	t.Helper()
	if _, err := s.Get(t.Context(), session, id); !errors.Is(err, want) {
		t.Errorf("get of %q in session %q: %v, want %v", id, session, err, want)
	}
}

// CheckContent ends the test unless the record's content is want.
func CheckContent(t testing.TB, s offload.Store, rec offload.Record, want []byte) {
	t.Helper()
	if got, err := ReadAll(t.Context(), s, rec); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %s/%s: %d bytes, %v; want the %d bytes that were put", rec.Session, rec.ID, len(got), err, len(want))
	}
}

// ReadAll reads the content of a record.
func ReadAll(ctx context.Context, s offload.Store, rec offload.Record) ([]byte, error) {
	c, err := s.Open(ctx, rec)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
}
