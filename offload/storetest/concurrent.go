package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
)

// openTwice opens a store twice, like two processes.
func openTwice(t *testing.T, h Harness, cfg offload.StoreConfig) [2]offload.Store {
	s := h.Open(t, cfg)
	if h.Volatile {
		return [2]offload.Store{s, s}
	}
	return [2]offload.Store{s, h.Open(t, cfg)}
}

func testConcurrentSame(t *testing.T, h Harness) {
	both := openTwice(t, h, offload.StoreConfig{})
	for _, size := range []int{1000, 6 * index.BlockSize} {
		before := h.stored(t)
		data := Text(size, 5)
		var wg sync.WaitGroup
		recs := make([]offload.Record, 8)
		for i := range recs {
			wg.Go(func() {
				out, err := both[i%2].Put(t.Context(), NewRecord("s", fmt.Sprint("same", size)), bytes.NewReader(data), nil)
				if err != nil {
					t.Errorf("put: %v", err)
				}
				recs[i] = out
			})
		}
		wg.Wait()
		for _, r := range recs {
			if fmt.Sprint(r) != fmt.Sprint(recs[0]) {
				t.Errorf("two records of one id:\n%+v\n%+v", r, recs[0])
			}
		}
		CheckContent(t, both[0], recs[0], data)
		h.checkStored(t, before, 1, fmt.Sprintf("%d bytes, put by 8 goroutines", size))
	}
}

func testConcurrentOther(t *testing.T, h Harness) {
	both := openTwice(t, h, offload.StoreConfig{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := map[int]offload.Record{}
	for i := range 8 {
		wg.Go(func() {
			out, err := both[i%2].Put(t.Context(), NewRecord("s", "contested"), bytes.NewReader(Text(1000+i, 6)), nil)
			if err != nil && !errors.Is(err, offload.ErrExists) {
				t.Errorf("put: %v", err)
			}
			if err == nil {
				mu.Lock()
				won[i] = out
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d contents have the same id", len(won))
	}
	for i, r := range won {
		CheckContent(t, both[0], r, Text(1000+i, 6))
	}
}

func testConcurrentReads(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	data := Text(30*index.BlockSize+9, 7)
	out := Put(t, s, NewRecord("s", "a"), data)
	c, err := s.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size())); err != nil || !bytes.Equal(got, data) {
				t.Errorf("in sequence: %d bytes, %v", len(got), err)
			}
		})
		wg.Go(func() {
			for range 40 {
				buf := make([]byte, 1000)
				off := rand.IntN(len(data) - len(buf))
				if _, err := c.ReadAt(buf, int64(off)); err != nil || !bytes.Equal(buf, data[off:off+len(buf)]) {
					t.Errorf("at %d: %v", off, err)
				}
			}
		})
	}
	wg.Wait()
}
