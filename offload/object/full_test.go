package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
	"github.com/stevedore-bus/stevedore/tools"
)

// sweepCounter counts the sweeps of a store. It is for one goroutine.
type sweepCounter struct {
	offload.Store
	n int
}

func (s *sweepCounter) Sweep(ctx context.Context, grace time.Duration) (offload.SweepReport, error) {
	s.n++
	return s.Store.Sweep(ctx, grace)
}

// TestFullStoreIsSwept: an Offloader sweeps a full store once. If that removes
// expired contents, the store accepts a new result; otherwise it refuses it.
func TestFullStoreIsSwept(t *testing.T) {
	const size = index.BlockSize
	var c storetest.Clock
	cfg := Config{StoreConfig: offload.StoreConfig{TTL: time.Hour, Quota: 2*size + size/2, Now: c.Now}}
	store := &sweepCounter{Store: openTest(t, connect(t, startServer(t, server.Options{})), cfg)}
	o := offload.NewOffloader(store, offload.Config{Always: []string{"t"}})
	put := func(id int) error {
		res := tools.NewToolResult(string(storetest.Text(size-100, uint64(id))))
		short, err := o.Result(t.Context(), tools.Call{ID: fmt.Sprint(id), Session: "s", Tool: "t"}, tools.Definition{}, res)
		if err == nil && short.Artifact == nil {
			t.Errorf("result %d was not offloaded", id)
		}
		return err
	}
	if err := put(1); err != nil {
		t.Fatal(err)
	}
	c.Advance(2 * time.Hour)
	for id := 2; id <= 3; id++ { // result 3 needs the space of the expired result 1
		if err := put(id); err != nil {
			t.Errorf("result %d: %v", id, err)
		}
	}
	for id := 4; id <= 6; id++ {
		if err := put(id); !errors.Is(err, offload.ErrQuota) {
			t.Errorf("result %d, if nothing is expired: %v, want ErrQuota", id, err)
		}
	}
	if store.n != 1 {
		t.Errorf("the store was swept %d times within a minute, want once", store.n)
	}
}

// A server that stores as much as it may refuses every message, and removes an artifact all the same, and a sweep what has expired.
func TestDeleteOnAFullServer(t *testing.T) {
	s := startServer(t, server.Options{JetStreamMaxStore: 4 << 20})
	js, c := connect(t, s), storetest.Clock{}
	store := openTest(t, js, Config{StoreConfig: offload.StoreConfig{TTL: time.Hour, Now: c.Now}})
	put := func(id string) {
		t.Helper()
		if _, err := store.Put(t.Context(), storetest.NewRecord("s", id), bytes.NewReader(storetest.Text(2<<20, 1)), nil); err != nil {
			t.Fatal(err)
		}
	}
	filler, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILLER", Subjects: []string{"filler"}})
	if err != nil {
		t.Fatal(err)
	}
	fill := func() {
		t.Helper()
		for range 100 {
			if _, err := js.Publish(t.Context(), "filler", make([]byte, 500_000)); errors.Is(quotaError(err), offload.ErrQuota) {
				return
			}
		}
		t.Fatal("the server accepts everything")
	}
	put("big")
	fill()
	if err := store.Delete(t.Context(), "s", "big"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := store.Get(t.Context(), "s", "big"); !errors.Is(err, offload.ErrNotFound) {
		t.Errorf("after the deletion: %v", err)
	}
	if report, err := store.Sweep(t.Context(), 0); err != nil || report.Blobs != 1 {
		t.Errorf("sweep: %+v, %v", report, err)
	}
	if _, err := js.Publish(t.Context(), "filler", nil); err != nil {
		t.Errorf("after the sweep: %v", err)
	}

	if err := filler.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	put("old")
	fill()
	c.Advance(2 * time.Hour)
	for _, want := range []offload.SweepReport{{Records: 1, Blobs: 1, Bytes: 2 << 20}, {Records: 1}, {}} { // there is space for the tombstone then
		if report, err := store.Sweep(t.Context(), time.Minute); err != nil || report != want {
			t.Errorf("sweep: %+v, %v; want %+v", report, err, want)
		}
	}
	if _, err := js.Publish(t.Context(), "filler", nil); err != nil {
		t.Errorf("after the sweep of what has expired: %v", err)
	}
}

// A server that once did not answer a purge, for example because its disk was full, gets the next ones after a while. Otherwise
// the chunks of what does not fit would fill the bucket, and nothing of a large result would be stored.
func TestPurgeAfterAnOutage(t *testing.T) {
	js, c := connect(t, startServer(t, server.Options{})), storetest.Clock{}
	if _, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: DefaultBlobBucket, MaxBytes: 8 * index.BlockSize}); err != nil {
		t.Fatal(err)
	}
	store := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: c.Now}})
	o := offload.NewOffloader(store, offload.Config{Always: []string{"t"}})
	put := func(id string) (*tools.Result, error) {
		res := tools.NewToolResult(string(storetest.Text(12*index.BlockSize, 7)))
		return o.Result(t.Context(), tools.Call{ID: id, Session: "s", Tool: "t"}, tools.Definition{}, res)
	}
	timeout := store.tidyTimeout
	store.tidyTimeout = 1 // the server does not answer
	if _, err := put("1"); !errors.Is(err, offload.ErrQuota) {
		t.Fatal(err)
	}
	store.tidyTimeout = timeout
	c.Advance(2 * time.Hour)
	if _, err := store.Sweep(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if short, err := put("2"); err != nil || short.Artifact == nil || !short.Artifact.Truncated {
		t.Errorf("%+v, %v", short, err)
	}
}
