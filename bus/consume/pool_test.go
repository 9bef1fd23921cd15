package consume_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

// Two consumers share one slot, so one message runs at a time. One that arrived and gets no slot
// goes back to its queue, and a process that is less busy runs it.
func TestConsumersShareAPool(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		pool := consume.NewPool(1)
		var running, most, ran atomic.Int64
		begun, end := make(chan struct{}, 1), make(chan struct{})
		run := func(queue string, pool *consume.Pool, handler consume.Handler) (stop func()) {
			return bustest.Run(t, func(ctx context.Context) error {
				return consume.Run(ctx, b, b.WorkerConsumer(queue), consume.Config{Pool: pool}, handler)
			})
		}
		for _, queue := range []string{"red", "blue"} {
			run(queue, pool, func(context.Context, *consume.Delivery) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				if ran.Add(1) == 1 {
					close(begun)
					<-end
				}
				return nil
			})
		}
		publish := func(queue string, from, to int) {
			for i := from; i < to; i++ {
				if _, err := b.JetStream().Publish(t.Context(), b.Call(queue, "x", "s", fmt.Sprint("c", i)), []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
		}
		info := func(queue string) *jetstream.ConsumerInfo {
			info, ok, err := b.ConsumerInfo(t.Context(), b.WorkerConsumer(queue))
			if err != nil || !ok {
				return new(jetstream.ConsumerInfo)
			}
			return info
		}
		bustest.WaitUntil(t, "both to ask", func() bool { return info("red").NumWaiting == 1 && info("blue").NumWaiting == 1 })
		publish("red", 0, 1)
		<-begun
		publish("blue", 0, 1)
		bustest.WaitUntil(t, "a message to arrive", func() bool { return info("blue").Delivered.Consumer == 1 })
		moved := make(chan bool, 1)
		stop := run("blue", nil, func(_ context.Context, d *consume.Delivery) error {
			moved <- d.Redelivered
			return nil
		})
		if !<-moved {
			t.Error("the other process got it first")
		}
		stop()
		close(end)
		publish("red", 1, 20)
		publish("blue", 1, 20)
		bustest.WaitUntil(t, "all calls to run", func() bool { return ran.Load() == 39 && pool.Free() == 1 })
		if most.Load() != 1 {
			t.Errorf("%d ran at once", most.Load())
		}
	})
}
