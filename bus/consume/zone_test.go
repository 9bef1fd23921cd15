package consume_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// zoned consumes the calls of a zone, and counts them.
func zoned(t *testing.T, b *bus.Bus, c bus.Consumer, cfg consume.Config, gate <-chan struct{}) (count *atomic.Int64, stop func()) {
	t.Helper()
	count = new(atomic.Int64)
	waiting := func() int {
		info, ok, err := b.ConsumerInfo(t.Context(), c)
		if err != nil || !ok {
			return 0
		}
		return info.NumWaiting
	}
	before := waiting()
	stop = bustest.Run(t, func(ctx context.Context) error {
		return dead.Consume(ctx, b, c, cfg, nil, func(context.Context, *consume.Delivery) error {
			count.Add(1)
			<-gate
			return nil
		})
	})
	bustest.WaitUntil(t, "the request for calls", func() bool { return waiting() > before })
	return count, stop
}

// The calls of a zone go to its workers. Others get what these have no slots for, and all calls
// when these are gone. An existing consumer that is not ranked serves both.
func TestZones(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Zone: "east"})
	queue := b.QueueFor("")
	c := b.WorkerConsumer(queue)
	if queue != "default--east" || b.QueueFor("gpu") != "gpu" || !c.Ranked || b.WorkerConsumer("default").Ranked {
		t.Fatalf("queue %q, consumer %+v", queue, c)
	}
	n := 0
	publish := func(calls int) {
		for range calls {
			n++
			if _, err := b.JetStream().Publish(t.Context(), b.Call(queue, "echo", "s", fmt.Sprint(n)), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	open, gate := make(chan struct{}), make(chan struct{})
	close(open)
	west, _ := zoned(t, b, c, consume.Config{Slots: 4, Spare: true}, open)
	east, stop := zoned(t, b, c, consume.Config{Slots: 4}, gate)
	publish(4)
	bustest.WaitUntil(t, "the worker of the zone", func() bool { return east.Load() == 4 })
	if west.Load() != 0 {
		t.Errorf("%d calls went to another zone while the own one was free", west.Load())
	}
	publish(3)
	bustest.WaitUntil(t, "the worker of the other zone", func() bool { return west.Load() == 3 })
	close(gate)
	stop()
	publish(5)
	bustest.WaitUntil(t, "the calls of a zone without workers", func() bool { return west.Load() == 8 })

	old := b.WorkerConsumer(bus.ZoneQueue("old"))
	old.Ranked = false
	if _, err := b.Consumer(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	old.Ranked = true
	served, _ := zoned(t, b, old, consume.Config{Spare: true}, open)
	if _, err := b.JetStream().Publish(t.Context(), b.Call(bus.ZoneQueue("old"), "echo", "s", "1"), nil); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the call of a consumer that is not ranked", func() bool { return served.Load() == 1 })
}
