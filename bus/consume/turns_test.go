package consume_test

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
	"github.com/stevedore-bus/stevedore/bus/consume"
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

// While one session has a long backlog, others get their turn. Every message is handled once,
// except that the consumer delivers those that were taken, too.
func TestTurns(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		testTurns(t, bustest.New(t), 4, 600)
	})
}

// With one slot, the messages of each session are handled in order.
func TestTurnsKeepTheOrder(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		for session, ids := range testTurns(t, bustest.New(t), 1, 300) {
			for i, id := range ids {
				if id != fmt.Sprint(i) {
					t.Fatalf("session %s: message %s was handled as number %d: %v", session, id, i, ids)
				}
			}
		}
	})
}

// testTurns handles a flood of messages and some of calm sessions, and returns the ids of each
// session in the order in which they were handled.
func testTurns(t *testing.T, b *bus.Bus, slots int, flood int64) (order map[string][]string) {
	t.Helper()
	const calm = 20
	var (
		mu      sync.Mutex
		taken   = map[string]bool{} // subjects of which TakeAhead was called
		begun   = map[string]bool{}
		floods  atomic.Int64 // handled of the flood
		running atomic.Int64
		most    atomic.Int64
	)
	order = map[string][]string{}
	cfg := consume.Config{Slots: slots, TakeAhead: func(_ context.Context, subject string, _ uint64) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		taken[subject] = true
		return true, nil
	}}
	isTaken := func(subject string) bool {
		mu.Lock()
		defer mu.Unlock()
		return taken[subject] && !begun[subject]
	}
	publishCalls(t, b, "flood", 0, int(flood))
	run(t, b, cfg, func(_ context.Context, d *consume.Delivery) error {
		// The process may not go on with a message that it has taken: then no handler begins.
		for deadline := time.Now().Add(2 * time.Second); !d.Ahead && isTaken(d.Subject) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		if begun[d.Subject] {
			mu.Unlock()
			return nil
		}
		begun[d.Subject] = true
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
	publishCalls(t, b, "calm", 0, calm)
	publishCalls(t, b, "other", 0, 1)
	bustest.WaitUntil(t, "the calm sessions", func() bool { return handled("calm") == calm && handled("other") == 1 })
	if n := floods.Load(); n > flood/2 {
		t.Errorf("%d messages of the flood were handled before the others got their turn", n)
	}
	bustest.WaitUntil(t, "the flood", func() bool { return floods.Load() == flood })
	waitForEmpty(t, b)
	for session, want := range map[string]int{"flood": int(flood), "calm": calm, "other": 1} {
		ids := slices.Sorted(slices.Values(order[session]))
		if n := len(slices.Compact(ids)); n != want || len(order[session]) != want {
			t.Errorf("session %s: %d of %d messages were handled, %d times", session, n, want, len(order[session]))
		}
	}
	if most.Load() > int64(slots) {
		t.Errorf("%d ran at once, with %d slots", most.Load(), slots)
	}
	return order
}
