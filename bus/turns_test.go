package bus_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// publishCalls publishes calls of a session without waiting for each acknowledgement.
func publishCalls(t *testing.T, b *bus.Bus, session string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := b.JetStream().PublishAsync(b.Call("default", "echo", session, fmt.Sprint(i)), []byte(session)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-b.JetStream().PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("the publishes are not acknowledged")
	}
}

// While one session has a long backlog, others get their turn, and the messages of each stay
// in order. Every message is handled once, except that the consumer delivers those that were
// taken, too.
func TestTurns(t *testing.T) {
	t.Parallel()
	const slots, flood = 4, 2000
	b := bustest.New(t)
	var (
		mu      sync.Mutex
		order   = map[string][]string{}
		ahead   = map[string]bool{}
		floods  atomic.Int64 // handled of the flood
		running atomic.Int64
		most    atomic.Int64
	)
	cfg := bus.ConsumeConfig{Slots: slots, TakeAhead: func(_ context.Context, subject string, _ uint64) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		ahead[subject] = true
		return true, nil
	}}
	publishCalls(t, b, "flood", 0, flood)
	consume(t, b, cfg, func(_ context.Context, d *bus.Delivery) error {
		mu.Lock()
		if ahead[d.Subject] && !d.Ahead { // a worker finds its result
			mu.Unlock()
			return nil
		}
		c, _ := b.SplitCall(d.Subject)
		order[c.Session] = append(order[c.Session], c.ID)
		mu.Unlock()
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		time.Sleep(10 * time.Millisecond) // what a tool does
		if c.Session == "flood" {
			floods.Add(1)
		}
		return nil
	})
	handled := func(session string) int {
		mu.Lock()
		defer mu.Unlock()
		return len(order[session])
	}
	publishCalls(t, b, "calm", 0, 20)
	publishCalls(t, b, "other", 0, 1)
	bustest.WaitUntil(t, "the calm sessions", func() bool { return handled("calm") == 20 && handled("other") == 1 })
	if n := floods.Load(); n > flood/2 {
		t.Errorf("%d messages of the flood were handled before the others got their turn", n)
	}
	bustest.WaitUntil(t, "the flood", func() bool { return floods.Load() == flood })
	waitForEmpty(t, b)
	for session, ids := range order {
		want := make([]string, len(ids))
		for i := range want {
			want[i] = fmt.Sprint(i)
		}
		slices.Sort(ids)
		slices.Sort(want)
		if !slices.Equal(ids, want) {
			t.Errorf("session %s: %d messages were handled, some twice or not at all", session, len(ids))
		}
	}
	if most.Load() > slots {
		t.Errorf("%d ran at once, with %d slots", most.Load(), slots)
	}
}
