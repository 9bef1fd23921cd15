package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
)

func testQuota(t *testing.T, h Harness) {
	const quota = 10*index.BlockSize + index.BlockSize/2
	s := h.Open(t, offload.StoreConfig{Quota: quota})
	first := Put(t, s, NewRecord("s", "a"), Text(6*index.BlockSize, 12))
	for _, size := range []int{5 * index.BlockSize, 40 * index.BlockSize} {
		_, err := s.Put(t.Context(), NewRecord("s", "b"), bytes.NewReader(Text(size, 13)), nil)
		if !errors.Is(err, offload.ErrQuota) || !strings.Contains(fmt.Sprint(err), fmt.Sprint(quota)) {
			t.Errorf("%d bytes too many: %v, want ErrQuota and the limit", size, err)
		}
		checkGet(t, s, "s", "b", offload.ErrNotFound)
		h.checkStored(t, 0, 1, "after a Put over the quota")
	}
	CheckContent(t, s, first, Text(6*index.BlockSize, 12))
	Put(t, s, NewRecord("s", "c"), Text(index.BlockSize, 13))
	small := Text(100, 13)
	Put(t, s, NewRecord("s", "d"), small)
	if _, err := s.Put(t.Context(), NewRecord("s", "e"), bytes.NewReader(Text(4*index.BlockSize, 14)), nil); !errors.Is(err, offload.ErrQuota) {
		t.Errorf("full: %v, want ErrQuota", err)
	}
	Put(t, s, NewRecord("other", "d"), small) // the content is stored already
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	Put(t, s, NewRecord("s", "e"), Text(4*index.BlockSize, 14))
}

// Puts of two processes at once do not exceed the quota together.
func testConcurrentQuota(t *testing.T, h Harness) {
	const size, quota = 3 * index.BlockSize, 10*index.BlockSize + index.BlockSize/2
	both := openTwice(t, h, offload.StoreConfig{Quota: quota})
	var wg sync.WaitGroup
	var stored atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			_, err := both[i%2].Put(t.Context(), NewRecord("s", fmt.Sprint(i)), bytes.NewReader(Text(size, uint64(100+i))), nil)
			if err == nil {
				stored.Add(size)
			} else if !errors.Is(err, offload.ErrQuota) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if stored.Load() > quota {
		t.Errorf("%d bytes were stored, the quota is %d", stored.Load(), quota)
	}
	for i := 0; stored.Load()+size <= quota; i++ { // the Puts that failed left nothing
		Put(t, both[0], NewRecord("s", fmt.Sprint("later", i)), Text(size, uint64(200+i)))
		stored.Add(size)
	}
}

func testSweepKeepsYoung(t *testing.T, h Harness) {
	var c Clock
	s := h.Open(t, offload.StoreConfig{TTL: 100 * time.Hour, Now: c.Now})
	Put(t, s, NewRecord("s", "a"), Text(9*index.BlockSize, 15))
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	sweep := func(blobs int) {
		t.Helper()
		if report, err := s.Sweep(t.Context(), time.Hour); err != nil || report.Blobs != blobs || report.Records != 0 {
			t.Errorf("sweep: %+v, %v; want %d blobs", report, err, blobs)
		}
	}
	sweep(0)
	h.checkStored(t, 0, 1, "after a sweep within the grace")
	c.Advance(61 * time.Minute)
	sweep(1)
	h.checkStored(t, 0, 0, "after a sweep")
}

func testSweepKeepsShared(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	data := Text(3000, 16)
	Put(t, s, NewRecord("s", "a"), data)
	b := Put(t, s, NewRecord("t", "b"), data)
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Sweep(t.Context(), 0); err != nil || report != (offload.SweepReport{}) {
		t.Errorf("sweep: %+v, %v; want nothing", report, err)
	}
	CheckContent(t, s, b, data)
}

// testSweepRace puts contents while other goroutines delete and sweep them. A Put that
// finds its blob must not lose it. The clock stops in each round, so the contents of
// this round are younger than the grace, and those of the previous round are older.
func testSweepRace(t *testing.T, h Harness) {
	const grace = 20 * time.Millisecond // the precision of file times
	var stopped atomic.Int64
	both := openTwice(t, h, offload.StoreConfig{Now: func() time.Time { return time.Unix(0, stopped.Load()) }})
	for round := range 6 {
		time.Sleep(grace)
		stopped.Store(time.Now().UnixNano())
		ctx, stop := context.WithCancel(t.Context())
		var sweeper, putters sync.WaitGroup
		sweeper.Go(func() {
			for ctx.Err() == nil {
				if _, err := both[1].Sweep(t.Context(), grace); err != nil {
					t.Errorf("sweep: %v", err)
					return
				}
			}
		})
		for i := range 3 {
			putters.Go(func() {
				for n := range 2 {
					data := Text(100+(n%2)*5*index.BlockSize, uint64(round%2))
					r := NewRecord("s", fmt.Sprintf("%d-%d-%d", round, i, n))
					out, err := both[i%2].Put(t.Context(), r, bytes.NewReader(data), nil)
					if err != nil {
						t.Errorf("put: %v", err)
						return
					}
					if got, err := ReadAll(t.Context(), both[0], out); err != nil || !bytes.Equal(got, data) {
						t.Errorf("read back: %d bytes, %v", len(got), err)
						return
					}
					if err := both[0].Delete(t.Context(), "s", r.ID); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			})
		}
		putters.Wait()
		stop()
		sweeper.Wait()
	}
	stopped.Store(time.Now().UnixNano())
	if _, err := both[0].Sweep(t.Context(), 0); err != nil {
		t.Error(err)
	}
	h.checkStored(t, 0, 0, "after the last sweep")
}
