package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// A message gets one dead letter, with the first reason, even if the hook for dead
// letters keeps failing.
func TestOneDeadLetterWhileItsHookFails(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "x"), Body: []byte(`{"id":"1"}`), Key: "k"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		calls := 0
		cfg := bus.ConsumeConfig{MaxAttempts: 1, OnDeadLetter: func(context.Context, *bus.Delivery, bus.StoredDeadLetter) error {
			calls++
			return errors.New("the results are full")
		}}
		err := b.Consume(ctx, b.WorkerConsumer("default"), cfg, func(context.Context, *bus.Delivery) error { return errors.New("the real reason") })
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for l, err := range b.DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, l.Reason)
		}
		if len(reasons) != 1 || reasons[0] != "the real reason" || calls < 3 {
			t.Errorf("%d calls of the hook; letters %q", calls, reasons)
		}
	})
}
