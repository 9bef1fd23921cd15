package offload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/tools"
)

// sweepCounter counts the sweeps of a store.
type sweepCounter struct {
	Store
	mu sync.Mutex
	n  int
}

func (s *sweepCounter) Sweep(ctx context.Context, grace time.Duration) (SweepReport, error) {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	return s.Store.Sweep(ctx, grace)
}

// TestExpiredContentMakesRoom: a store that is full of what expired takes a new
// result, and one that is full of what did not refuses it, without sweeping each
// time.
func TestExpiredContentMakesRoom(t *testing.T) {
	const size = index.BlockSize
	var c clock
	cfg := StoreConfig{TTL: time.Hour, Quota: 2*size + size/2, Now: c.Now}
	for name, open := range map[string]func() Store{
		"mem": func() Store { return NewMem(cfg) },
		"disk": func() Store {
			s, err := OpenDisk(t.TempDir(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
		"object": func() Store {
			return openTestObject(t, connect(t, startServer(t, server.Options{})), ObjectConfig{StoreConfig: cfg})
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &sweepCounter{Store: open()}
			o := NewOffloader(store, Config{Allow: []string{"t"}})
			result := func(id int) error {
				res := tools.NewToolResult(string(content(size-100, uint64(id))))
				light, err := o.Result(t.Context(), tools.Call{ID: fmt.Sprint(id), Session: "s", Tool: "t"}, tools.Definition{}, res)
				if err == nil && light.Artifact == nil {
					t.Errorf("result %d was not offloaded", id)
				}
				return err
			}
			if err := result(1); err != nil {
				t.Fatal(err)
			}
			c.add(2 * time.Hour)
			for id := 2; id <= 3; id++ { // the second needs the room of what expired
				if err := result(id); err != nil {
					t.Errorf("result %d: %v", id, err)
				}
			}
			for id := 4; id <= 6; id++ {
				if err := result(id); !errors.Is(err, ErrQuota) {
					t.Errorf("result %d, with nothing expired: %v, want ErrQuota", id, err)
				}
			}
			if store.n != 1 {
				t.Errorf("the store was swept %d times, want once a minute", store.n)
			}
		})
	}
}
