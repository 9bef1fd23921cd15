package offload

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

	"github.com/stevedore-bus/stevedore/offload/index"
)

func testQuota(t *testing.T, h harness) {
	const quota = 10*index.BlockSize + index.BlockSize/2
	s := h.open(t, StoreConfig{Quota: quota})
	first := mustPut(t, s, rec("s", "a"), content(6*index.BlockSize, 12))
	for _, size := range []int{5 * index.BlockSize, 40 * index.BlockSize} {
		_, err := s.Put(t.Context(), rec("s", "b"), bytes.NewReader(content(size, 13)), nil)
		if !errors.Is(err, ErrQuota) || !strings.Contains(fmt.Sprint(err), fmt.Sprint(quota)) {
			t.Errorf("%d bytes too many: %v, want ErrQuota and the limit", size, err)
		}
		if _, err := s.Get(t.Context(), "s", "b"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a record is left: %v", err)
		}
		if got := h.stored(t); got != 1 {
			t.Errorf("%d contents are stored, want 1", got)
		}
	}
	mustRead(t, s, first, content(6*index.BlockSize, 12))
	mustPut(t, s, rec("s", "c"), content(index.BlockSize, 13))
	small := content(100, 13)
	mustPut(t, s, rec("s", "d"), small)
	if _, err := s.Put(t.Context(), rec("s", "e"), bytes.NewReader(content(4*index.BlockSize, 14)), nil); !errors.Is(err, ErrQuota) {
		t.Errorf("full: %v, want ErrQuota", err)
	}
	mustPut(t, s, rec("other", "d"), small) // stored already
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, rec("s", "e"), content(4*index.BlockSize, 14))
}

func testSweepSparesTheYoung(t *testing.T, h harness) {
	var c clock
	s := h.open(t, StoreConfig{TTL: 100 * time.Hour, Now: c.Now})
	mustPut(t, s, rec("s", "a"), content(9*index.BlockSize, 15))
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
	if got := h.stored(t); got != 1 {
		t.Fatalf("%d contents are stored, want the young one", got)
	}
	c.add(61 * time.Minute)
	sweep(1)
	if got := h.stored(t); got != 0 {
		t.Errorf("%d contents are stored, want none", got)
	}
}

func testSweepSparesTheShared(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	data := content(3000, 16)
	mustPut(t, s, rec("s", "a"), data)
	b := mustPut(t, s, rec("t", "b"), data)
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Sweep(t.Context(), 0); err != nil || report != (SweepReport{}) {
		t.Errorf("sweep: %+v, %v; want nothing", report, err)
	}
	mustRead(t, s, b, data)
}

// testSweepRace puts contents that others delete and sweep at the same time: a
// Put that found its blob there must not lose it. The clock stands still in each
// round, so that what is put in it is younger than the grace however long it
// takes, and what is left of the round before is older.
func testSweepRace(t *testing.T, h harness) {
	const grace = 20 * time.Millisecond // what a file's time may be behind
	var stopped atomic.Int64
	now := func() time.Time { return time.Unix(0, stopped.Load()) }
	var both [2]Store
	for i := range both {
		if both[i] = both[0]; i == 0 || !h.forgets {
			both[i] = h.open(t, StoreConfig{Now: now})
		}
	}
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
					data := content(100+(n%2)*5*index.BlockSize, uint64(round%2))
					r := rec("s", fmt.Sprintf("%d-%d-%d", round, i, n))
					out, err := both[i%2].Put(t.Context(), r, bytes.NewReader(data), nil)
					if err != nil {
						t.Errorf("put: %v", err)
						return
					}
					if got, err := readAll(t.Context(), both[0], out); err != nil || !bytes.Equal(got, data) {
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
	if got := h.stored(t); got != 0 {
		t.Errorf("%d contents are left", got)
	}
}
