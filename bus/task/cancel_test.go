package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
)

// However a watch ends, its subscriptions end with it.
func TestWatchCancellationsLeavesNothing(t *testing.T) {
	b := bustest.New(t)
	until := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); b.Conn().NumSubscriptions() > n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d subscriptions, want %d", b.Conn().NumSubscriptions(), n)
			}
		}
	}
	before := b.Conn().NumSubscriptions()
	nothing := func(_, _ string) {}
	for range 20 { // which end a watch notices first is up to chance
		ctx, cancel := context.WithCancel(t.Context())
		with := b.Conn().NumSubscriptions() + 1 // that of the hints; the library ends its own
		ended := func() { cancel(); until(with) }
		err := task.WatchCancellations(ctx, b, task.Cancellations{Ready: ended, Cancelled: nothing, Expired: nothing, Stop: nothing})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	until(before)
}

// A forged key in the bucket of cancellations must not take workers down.
func TestForeignCancellationKeys(t *testing.T) {
	b := bustest.New(t)
	kv, err := b.JetStream().KeyValue(t.Context(), b.BucketName(bus.TasksBucket))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"cancel.x", "cancel.a.b.c", "other"} {
		if _, err := kv.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := task.Cancel(t.Context(), b, "s", "c"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	none := func(string, string) {}
	err = task.WatchCancellations(ctx, b, task.Cancellations{
		Ready:     cancel,
		Cancelled: func(session, call string) { seen = append(seen, session+"/"+call) },
		Expired:   none, Stop: none,
	})
	if err != nil || strings.Join(seen, " ") != "s/c" {
		t.Errorf("saw %v, %v", seen, err)
	}
}
