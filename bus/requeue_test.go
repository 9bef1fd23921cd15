package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// A call that is stored under another subject keeps its id and the rest of its TTL, and
// its first delivery there is not a redelivery.
func TestRefile(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.ShortCall("default", "x"), Body: []byte(`{}`), Key: "k", Header: nats.Header{"Nats-TTL": {"3600"}}}); err != nil {
		t.Fatal(err)
	}
	subject := b.Call("default", "x", "default", "k")
	consume(t, b, bus.ConsumeConfig{}, func(ctx context.Context, d *bus.Delivery) error {
		_, err := b.Publish(ctx, d.Refile(subject))
		return err
	})
	waitForEmpty(t, b)
	filed := make(chan *bus.Delivery, 1)
	bustest.Run(t, func(ctx context.Context) error {
		return b.Consume(ctx, b.WorkerConsumer("default"), bus.ConsumeConfig{}, func(_ context.Context, d *bus.Delivery) error {
			filed <- d
			return nil
		})
	})
	d := <-filed
	left, err := time.ParseDuration(d.Header("Nats-TTL"))
	if d.Subject != subject || d.ID() != "k" || d.Redelivered || err != nil || left > time.Hour || left < time.Minute {
		t.Errorf("%s has the id %q and the TTL %s (%v), redelivered %v", d.Subject, d.ID(), left, err, d.Redelivered)
	}
}
