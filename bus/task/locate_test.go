package task_test

import (
	"context"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A call whose dead letter somebody has retried runs also at a worker that has not heard yet that the call is not parked
// any more, because its watch of the records broke off.
func TestRetriedCallIsNotTakenForAParkedOne(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := task.Parked{Call: tools.Call{ID: "c", Session: "s", Tool: "x"}, Queue: "default", State: task.Waiting, Until: time.Now().Add(time.Hour)}
	var err error
	if p.Number, err = task.Park(t.Context(), b, p); err == nil {
		err = task.Resume(t.Context(), b, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	subject := b.Call("default", "x", "s", "c")
	m, err := b.Last(t.Context(), bus.Calls, subject)
	if err == nil { // a worker gave up on it, and somebody retries it
		err = task.StoreRetry(t.Context(), b, p.Key(), m.Sequence)
	}
	if err == nil {
		err = b.Republish(t.Context(), bus.Message{Subject: subject, Body: m.Body, Key: "retry"}, "c", func(uint64) bool { return true })
	}
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(tools.CallKey) {}
	behind := task.NewFollower(b, task.FollowerConfig{Cancelled: nothing, Expired: nothing, Stop: nothing})
	ready := make(chan struct{})
	defer bustest.Run(t, func(ctx context.Context) error { return behind.Run(ctx, func() { close(ready) }) })()
	<-ready
	behind.Add(p)
	l := task.Locator{Bus: b, Records: behind, Results: task.NewResults(b, bustest.Log(t)), Here: func(tools.CallKey) <-chan struct{} { return nil }}
	place := make(chan task.Place, 1)
	defer bustest.Run(t, func(ctx context.Context) error {
		return consume.Run(ctx, b, b.WorkerConsumer("default"), consume.Config{}, func(ctx context.Context, delivery *consume.Delivery) error {
			d, err := task.Decode(b.Subjects, delivery)
			if err == nil {
				var at task.Place
				at, err = l.Locate(ctx, d, false)
				place <- at
			}
			if err != nil {
				t.Error(err)
			}
			return err
		})
	})()
	if at := <-place; at.Where == task.IsParked {
		t.Error("the call counts as parked, so its only message is acknowledged")
	}
}
