package dead_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// Retried messages that die again get a letter each, with the same reason and as a first
// attempt. No worker reads the stream of letters for that: each of many would read it all.
func TestRetriedMessagesDieAgain(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		const count = 100
		arriving := bustest.Subscribe(t, b, "stevedore.dead.call.*")
		run(t, b, consume.Config{}, func(context.Context, *consume.Delivery) error {
			return consume.Reject("hopeless", errors.New("it cannot be done"))
		})
		for range count {
			if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "x"), Body: []byte("no JSON")}); err != nil {
				t.Fatal(err)
			}
			bustest.Next[dead.Letter](t, arriving)
		}
		letters := list(t, b, "", 0)
		reads := bustest.Subscribe(t, b, "$JS.API.DIRECT.GET.STEVEDORE_DEAD")
		dead.Each(letters, bus.DeletesAtOnce, func(l dead.Stored) error { return retry(t.Context(), b, l) }, func(l dead.Stored, err error) {
			if err != nil {
				t.Errorf("letter %d: %v", l.Number, err)
			}
		})
		for range count {
			if l, _ := bustest.Next[dead.Letter](t, arriving); l.Code != "hopeless" || l.Attempts != 1 {
				t.Errorf("letter %+v", l)
			}
		}
		waitForEmpty(t, b)
		if n, _, err := reads.Pending(); n > 0 || err != nil {
			t.Errorf("the letters were read %d times, %v", n, err)
		}
		if n := bustest.Messages(t, b, bus.Dead); n != count {
			t.Errorf("%d letters", n)
		}
	})
}

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
		report := func(context.Context, *consume.Delivery, dead.Stored) error {
			calls++
			return errors.New("the results are full")
		}
		err := dead.Consume(ctx, b, b.WorkerConsumer("default"), consume.Config{MaxAttempts: 1}, report, func(context.Context, *consume.Delivery) error { return errors.New("the real reason") })
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for _, l := range list(t, b, "", 0) {
			reasons = append(reasons, l.Reason)
		}
		if len(reasons) != 1 || reasons[0] != "the real reason" || calls < 3 {
			t.Errorf("%d calls of the hook; letters %q", calls, reasons)
		}
	})
}
