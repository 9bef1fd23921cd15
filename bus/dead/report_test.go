package dead_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
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
		report := func(context.Context, *bus.Delivery, dead.Stored) error {
			calls++
			return errors.New("the results are full")
		}
		err := dead.Consume(ctx, b, b.WorkerConsumer("default"), bus.ConsumeConfig{MaxAttempts: 1}, report, func(context.Context, *bus.Delivery) error { return errors.New("the real reason") })
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for l, err := range dead.List(t.Context(), b, "", 0) {
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
