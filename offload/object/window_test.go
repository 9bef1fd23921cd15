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

// TestWindow: the uploads of a store share the chunks in flight. There are more of
// them on a slow connection.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		roundTrip time.Duration
		uploads   int64
		want      int
	}{
		{0, 1, minInFlight},
		{0, 16, minInFlight / 16},
		{0, 10_000, 1},
		{20 * time.Millisecond, 1, minInFlight + 60},
		{200 * time.Millisecond, 1, maxInFlight},
		{200 * time.Millisecond, 100, maxInFlight / 100},
	} {
		w := window{roundTrip: c.roundTrip}
		w.uploads.Store(c.uploads)
		if got := w.chunks(); got != c.want {
			t.Errorf("%v, %d uploads: %d chunks, want %d", c.roundTrip, c.uploads, got, c.want)
		}
	}
}

// TestOpenMeasures: Open measures the round trip and gets the last sequence.
func TestOpenMeasures(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(10*index.BlockSize, 600))
	again := openTest(t, js, Config{})
	if got, want := again.lastSeq.Load(), s.lastSeq.Load(); got != want || want != 11 || again.window.roundTrip <= 0 {
		t.Errorf("sequence %d and round trip %v; the store that wrote 11 messages knows %d", got, again.window.roundTrip, want)
	}
	if n := s.window.uploads.Load(); n != 0 {
		t.Errorf("%d uploads are running", n)
	}
}

// TestManyUploadsAtOnce: the uploads of several stores have fewer chunks in flight
// than the server accepts for a stream.
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
