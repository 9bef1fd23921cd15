package object

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestWindow: what is on a long link does not weigh on the server, what queues
// there does.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name        string
		link        time.Duration
		uploads     int64
		took        []time.Duration // by chunks with 100 on their way
		least, most int
	}{
		{"at the beginning", 0, 1, nil, minInFlight, minInFlight},
		{"at the beginning of a long link", 200 * time.Millisecond, 1, nil, 400, maxInFlight},
		{"of many on a long link", 200 * time.Millisecond, 100, nil, 1, maxInFlight / 100},
		{"of many", 0, 100, nil, 1, minTogether / minInFlight},
		{"of very many", 0, 10_000, nil, 1, 1},
		{"grows", 0, 1, []time.Duration{1e6, 2e6, 1e6}, minInFlight + 3, minInFlight + 3},
		{"grows although the leader is far", 0, 1, []time.Duration{200e6, 200e6, 200e6}, minInFlight + 3, minInFlight + 3},
		{"shrinks when chunks queue", 0, 1, []time.Duration{10e6, 120e6}, 40, 50},
		{"shrinks when all queue from the beginning", 0, 1, []time.Duration{600e6}, 40, 50},
		{"does not close", 0, 1, []time.Duration{1e6, 100e9}, minInFlight, minInFlight},
	} {
		l := link{delay: c.link}
		l.uploads.Store(c.uploads)
		w := l.newWindow()
		for _, took := range c.took {
			w.stored(sentChunk{open: 100, at: time.Now().Add(-took)})
		}
		if n := w.chunks(); n < c.least || n > c.most {
			t.Errorf("%s: %d chunks, want %d to %d", c.name, n, c.least, c.most)
		}
	}
}

// TestOpenMeasuresTheLink: a store knows the way and the end of its stream.
func TestOpenMeasuresTheLink(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(10*index.BlockSize, 600))
	again := openTest(t, js, Config{})
	if got, want := again.link.seq.Load(), s.link.seq.Load(); got != want || want != 11 || again.link.delay <= 0 {
		t.Errorf("sequence %d and delay %v; who wrote 11 knows of %d", got, again.link.delay, want)
	}
	if n := s.link.uploads.Load(); n != 0 {
		t.Errorf("%d uploads are under way", n)
	}
}

// TestManyUploadsAtOnce: together they would have more on their way than the
// server holds for a stream, which then refuses what comes, but those of a store
// share, and stores yield to each other.
func TestManyUploadsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 800 MB")
	}
	srv := startServer(t, server.Options{SyncAlways: true})
	data := storetest.Text(15*index.BlockSize, 500)
	var putting sync.WaitGroup
	for store := range 8 {
		s := openTest(t, connect(t, srv), Config{})
		for i := range 50 {
			putting.Go(func() {
				src := io.MultiReader(bytes.NewReader(storetest.Text(index.BlockSize, uint64(501+50*store+i))), bytes.NewReader(data))
				if _, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprintf("a%d-%d", store, i)), src, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	putting.Wait()
}
