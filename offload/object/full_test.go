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

// A server that stores as much as it may refuses every message, and removes an artifact all the same.
func TestDeleteOnAFullServer(t *testing.T) {
	s := startServer(t, server.Options{JetStreamMaxStore: 4 << 20})
	js := connect(t, s)
	store := openTest(t, js, Config{})
	if _, err := store.Put(t.Context(), storetest.NewRecord("s", "big"), bytes.NewReader(storetest.Text(2<<20, 1)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILLER", Subjects: []string{"filler"}}); err != nil {
		t.Fatal(err)
	}
	full := false
	for i := 0; i < 100 && !full; i++ {
		_, err := js.Publish(t.Context(), "filler", make([]byte, 500_000))
		full = errors.Is(quotaError(err), offload.ErrQuota)
	}
	if !full {
		t.Fatal("the server accepts everything")
	}
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
}
