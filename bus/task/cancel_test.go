package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// When a watch ends, its subscriptions end too.
func TestFollowerLeavesNothing(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	until := func(n int) {
		t.Helper()
		bustest.WaitUntil(t, "the subscriptions to end", func() bool { return b.Conn().NumSubscriptions() <= n })
	}
	before := b.Conn().NumSubscriptions()
	nothing := func(tools.CallKey) {}
	for range 20 { // the watch may notice either end first
		ctx, cancel := context.WithCancel(t.Context())
		with := b.Conn().NumSubscriptions() + 1 // the subscription for Stop; the library ends its own
		ended := func() { cancel(); until(with) }
		err := task.NewFollower(b, task.FollowerConfig{Cancelled: nothing, Expired: nothing, Stop: nothing}).Run(ctx, ended)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	until(before)
}

// A forged key in the bucket of cancellations must not take workers down.
func TestForeignCancellationKeys(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	kv, err := b.JetStream().KeyValue(t.Context(), b.BucketName(bus.TasksBucket))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"call.x", "call.a.b.c", "call.a.b", "other"} {
		if _, err := kv.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := task.RecordCancellation(t.Context(), b, "s", "c"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	none := func(tools.CallKey) {}
	err = task.NewFollower(b, task.FollowerConfig{
		Cancelled: func(k tools.CallKey) { seen = append(seen, k.Session+"/"+k.ID) },
		Expired:   none, Stop: none,
	}).Run(ctx, cancel)
	if err != nil || strings.Join(seen, " ") != "s/c" {
		t.Errorf("saw %v, %v", seen, err)
	}
}

// The library ends a watch whose bucket is gone. Once there is a bucket again, the follower
// hears of later cancellations.
func TestFollowerOutlivesItsWatch(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		ready, cancelled := make(chan struct{}), make(chan tools.CallKey, 1)
		nothing := func(tools.CallKey) {}
		f := task.NewFollower(b, task.FollowerConfig{Cancelled: func(k tools.CallKey) { cancelled <- k }, Expired: nothing, Stop: nothing})
		defer bustest.Run(t, func(ctx context.Context) error { return f.Run(ctx, func() { close(ready) }) })()
		<-ready
		watching := b.Conn().NumSubscriptions()
		if err := b.JetStream().DeleteKeyValue(t.Context(), b.BucketName(bus.TasksBucket)); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "the watch to end", func() bool { return b.Conn().NumSubscriptions() < watching })
		time.Sleep(time.Minute) // several tries fail
		if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b"} {
			if err := task.RecordCancellation(t.Context(), b, "s", id); err != nil {
				t.Fatal(err)
			}
			select {
			case k := <-cancelled:
				if k.ID != id {
					t.Errorf("call %s was cancelled, not %s", k.ID, id)
				}
			case <-time.After(bustest.Timeout):
				t.Fatalf("the follower does not hear of the cancellation of call %s", id)
			}
		}
	})
}

// After a loss of the connection, a follower begins another watch at once: the library may notice only later that its own was lost.
func TestFollowerWatchesAgain(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		ready, nothing := make(chan struct{}), func(tools.CallKey) {}
		f := task.NewFollower(b, task.FollowerConfig{Cancelled: nothing, Expired: nothing, Stop: nothing})
		defer bustest.Run(t, func(ctx context.Context) error { return f.Run(ctx, func() { close(ready) }) })()
		<-ready
		for range 3 {
			if err := b.Conn().ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			bustest.WaitUntil(t, "another connection", func() bool { return b.Conn().IsConnected() })
			time.Sleep(time.Second)
			if !f.IsCurrent() {
				t.Error("the follower has no new watch")
			}
		}
	})
}
