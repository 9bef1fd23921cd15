package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
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
		err := b.WatchCancellations(ctx, bus.Cancellations{Ready: ended, Cancelled: nothing, Forgotten: nothing, Hinted: nothing})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	until(before)
}
