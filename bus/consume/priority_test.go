package consume_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

// takeAll is a TakeAhead for one process, which needs no record of what it took.
func takeAll(context.Context, string, uint64) (bool, error) { return true, nil }

// publishWith publishes a call with a priority.
func publishWith(t *testing.T, b *bus.Bus, session, id, priority string) {
	t.Helper()
	msg := &nats.Msg{Subject: b.Call("default", "echo", session, id), Header: nats.Header{bus.PriorityHeader: {priority}}}
	if _, err := b.JetStream().PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

// A call with a high priority overtakes those of its own session; one with a low priority is
// overtaken by other sessions.
func TestPriorities(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var (
			mu    sync.Mutex
			order []string
		)
		publishCalls(t, b, "flood", 0, 150)
		run(t, b, consume.Config{Slots: 1, TakeAhead: takeAll}, func(_ context.Context, d *consume.Delivery) error {
			c, _ := b.SplitCall(d.Subject)
			mu.Lock()
			if name := c.Session + " " + c.ID; !slices.Contains(order, name) { // the consumer delivers what ran ahead, too
				order = append(order, name)
			}
			mu.Unlock()
			time.Sleep(10 * time.Millisecond) // what a tool does
			return nil
		})
		publishWith(t, b, "flood", "urgent", bus.PriorityHigh)
		publishWith(t, b, "calm", "low", bus.PriorityLow)
		publishWith(t, b, "calm", "normal", "unknown")
		waitForEmpty(t, b)
		at := func(name string) int { return slices.Index(order, name) }
		if len(order) != 153 || at("flood urgent") > at("flood 100") || at("calm normal") > at("flood 100") || at("calm low") < at("calm normal") {
			t.Errorf("the order of %d calls was %v", len(order), order)
		}
	})
}

// A session runs as many calls at once as it may, in order. Its next ones neither take slots
// nor delay other sessions, also those that call when nothing but held calls is left. A stop
// returns the held ones.
func TestSessionSlots(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var (
			mu      sync.Mutex
			order   = map[string][]string{}
			running = map[string]int{}
			gate    = make(chan struct{}, 100)
		)
		cfg := consume.Config{Slots: 4, SessionSlots: 1, TakeAhead: takeAll}
		handler := func(ctx context.Context, d *consume.Delivery) error {
			c, _ := b.SplitCall(d.Subject)
			mu.Lock()
			if slices.Contains(order[c.Session], c.ID) { // it ran ahead
				mu.Unlock()
				return nil
			}
			order[c.Session] = append(order[c.Session], c.ID)
			if running[c.Session]++; running[c.Session] > 1 {
				t.Errorf("%d calls of session %s run at once", running[c.Session], c.Session)
			}
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				running[c.Session]--
			}()
			if c.Session == "flood" {
				select {
				case <-gate:
				case <-ctx.Done():
				}
			}
			return nil
		}
		count := func(session string) int {
			mu.Lock()
			defer mu.Unlock()
			return len(order[session])
		}
		// One at a time, so that the consumer sees no backlog. It holds as many as it has slots.
		flood := func(from, to int) {
			for i := from; i < to; i++ {
				publishCalls(t, b, "flood", i, i+1)
				bustest.WaitUntil(t, "the call to arrive", func() bool { return pendingCalls(t, b) == 0 })
			}
		}
		stop := run(t, b, cfg, handler)
		flood(0, 5)
		publishCalls(t, b, "calm", 0, 3)
		bustest.WaitUntil(t, "the calm session", func() bool { return count("calm") == 3 })
		if n := count("flood"); n != 1 {
			t.Errorf("%d calls of the flood began", n)
		}
		for range 5 {
			gate <- struct{}{}
		}
		bustest.WaitUntil(t, "the flood", func() bool { return count("flood") == 5 })
		waitForEmpty(t, b)
		if got := order["flood"]; !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
			t.Errorf("the calls of the flood began in the order %v", got)
		}

		flood(5, 8)
		bustest.WaitUntil(t, "the next call", func() bool { return count("flood") == 6 })
		stopped := make(chan struct{})
		go func() { defer close(stopped); stop() }()
		var others sync.WaitGroup
		others.Add(2)
		run(t, b, cfg, func(context.Context, *consume.Delivery) error { others.Done(); return nil })
		others.Wait() // the first process still handles one
		gate <- struct{}{}
		<-stopped
		waitForEmpty(t, b)
	})
}

// pendingCalls returns how many calls the consumer has delivered to nobody.
func pendingCalls(t *testing.T, b *bus.Bus) uint64 {
	t.Helper()
	info, ok, err := b.ConsumerInfo(t.Context(), b.WorkerConsumer("default"))
	if err != nil {
		t.Fatal(err)
	}
	if !ok { // the worker has not created it yet
		return 1
	}
	return info.NumPending
}
