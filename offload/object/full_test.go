package object

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

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
