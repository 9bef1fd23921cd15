package console

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// When the last viewer has left, nothing that it started goes on.
func TestLeaveWaitsForTheCollection(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	before := b.Conn().NumSubscriptions()
	h := newHub(b, zerolog.Nop())
	for range 20 {
		one, _ := h.join()
		two, ok := h.join()
		if !ok || h.stop == nil {
			t.Fatal("no collection for two viewers")
		}
		h.leave(one)
		if h.stop == nil {
			t.Fatal("the collection ended although one page views")
		}
		h.leave(two)
		if n := b.Conn().NumSubscriptions(); n != before || h.stop != nil {
			t.Fatalf("%d subscriptions after the last viewer left, %d before the first", n, before)
		}
	}
}
