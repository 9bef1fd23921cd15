package object

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// A sweep that takes longer than its grace, because it has much to remove, keeps the content of a Put that it listed before the
// Put had its object or its record.
func TestSweepTakesLong(t *testing.T) {
	t.Parallel()
	const removed, grace = 40, 20 * time.Millisecond
	for _, before := range []string{"object", "record"} {
		js := connect(t, startServer(t, server.Options{}))
		var now atomic.Int64 // of the sweep, until it removes something
		s := openTest(t, js, Config{})
		sweeper := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: func() time.Time { return time.Unix(0, now.Load()) }}})
		for i := range removed {
			storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint("old", i)), []byte(fmt.Sprint("old ", i)))
			if err := s.Delete(t.Context(), "s", fmt.Sprint("old", i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * grace)
		now.Store(time.Now().UnixNano())
		removals, err := js.Conn().SubscribeSync("$JS.API.STREAM.MSG.DELETE." + s.stream())
		if err != nil {
			t.Fatal(err)
		}
		var sweeping sync.WaitGroup
		sweep := func() error {
			sweeping.Go(func() {
				if _, err := sweeper.Sweep(t.Context(), grace); err != nil {
					t.Error(err)
				}
			})
			_, err := removals.NextMsg(10 * time.Second) // it has listed everything
			now.Add(int64(time.Minute))
			return err
		}
		data := storetest.Text(9*index.BlockSize, 39)
		var src io.Reader = bytes.NewReader(data)
		summarize := func(*offload.Record, offload.Content) error { return sweep() }
		if before == "object" {
			summarize = nil
			src = io.MultiReader(bytes.NewReader(data[:len(data)*2/3]), readFunc(func([]byte) (int, error) {
				for {
					info, err := s.blobs.Info(t.Context())
					if err != nil {
						return 0, err
					}
					if info.State.Msgs > 2*removed { // a chunk of this Put is stored
						break
					}
					time.Sleep(time.Millisecond)
				}
				return 0, cmp.Or(sweep(), io.EOF)
			}), bytes.NewReader(data[len(data)*2/3:]))
		}
		out, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), src, summarize)
		if err != nil {
			t.Fatal(err)
		}
		sweeping.Wait()
		storetest.CheckContent(t, s, out, data)
	}
}

// An artifact that was removed stays away when the server is killed after a sweep.
func TestServerKilledAfterARemoval(t *testing.T) {
	t.Parallel()
	root, clock := t.TempDir(), &storetest.Clock{}
	open := func(dir string) *Store {
		js := connect(t, startServer(t, server.Options{StoreDir: filepath.Join(root, dir), SyncAlways: true}))
		return openTest(t, js, Config{StoreConfig: offload.StoreConfig{TTL: 24 * time.Hour, Now: clock.Now}})
	}
	s := open("0")
	data := []byte("a secret")
	for _, id := range []string{"removed", "kept"} {
		storetest.Put(t, s, storetest.NewRecord("s", id), data)
	}
	if err := s.Delete(t.Context(), "s", "removed"); err != nil {
		t.Fatal(err)
	}
	for i, later := range []time.Duration{2 * time.Hour, 24 * time.Hour} {
		clock.Advance(later)
		if _, err := s.Get(t.Context(), "s", "kept"); i == 0 && err != nil {
			t.Error(err)
		}
		if _, err := s.Sweep(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		killed := fmt.Sprint(i + 1)
		if err := os.CopyFS(filepath.Join(root, killed), os.DirFS(filepath.Join(root, "0"))); err != nil {
			t.Fatal(err)
		}
		again := open(killed)
		if _, err := again.Get(t.Context(), "s", "removed"); !errors.Is(err, offload.ErrNotFound) && (i == 0 || !errors.Is(err, offload.ErrExpired)) {
			t.Errorf("%s after the removal: %v", later, err)
		}
		for rec, err := range again.List(t.Context(), "s") {
			if err != nil || rec.ID != "kept" {
				t.Errorf("%s after the removal: %q is listed, %v", later, rec.ID, err)
			}
		}
	}
}
