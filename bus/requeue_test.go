package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// A requeued call keeps the rest of its TTL.
func TestRequeueKeepsTheTTL(t *testing.T) {
	b := bustest.New(t)
	subject := b.Call("default", "x")
	if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(`{"id":"1"}`), Header: nats.Header{"Nats-TTL": {"3600"}}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := b.Consume(ctx, b.WorkerConsumer("default"), bus.ConsumeConfig{Grace: time.Millisecond}, func(ctx context.Context, _ *bus.Delivery) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	left, err := time.ParseDuration(msg.Header.Get("Nats-TTL"))
	if msg.Sequence != 2 || err != nil || left > time.Hour || left < time.Minute {
		t.Errorf("message %d has the TTL %s (%v), want the rest of an hour", msg.Sequence, left, err)
	}
}
