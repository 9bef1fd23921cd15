package console

import (
	"encoding/json"
	"testing"
	"time"

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

// A viewer hears that events may have been lost: it was too slow, or the bus was away.
func TestMissedEvents(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	h := newHub(b, zerolog.Nop())
	frames, _ := h.join()
	defer h.leave(frames)
	next := func() (f frame) {
		t.Helper()
		select {
		case body := <-frames:
			if err := json.Unmarshal(body, &f); err != nil {
				t.Fatal(err)
			}
		case <-time.After(bustest.Timeout):
			t.Fatal("no frame")
		}
		return f
	}
	if next().Missed {
		t.Error("the first frame follows others")
	}
	for i := range cap(frames) + 1 {
		h.send(frame{Dead: i + 1})
	}
	missed := false
	for range cap(frames) {
		missed = missed || next().Missed
	}
	if f := next(); missed || !f.Missed {
		t.Errorf("the frame after one that was lost: %+v", f)
	}
	if err := b.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for !next().Missed {
	}
}
