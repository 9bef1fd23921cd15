package bus_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// Of many writers that saw the same log one appends; the others see a conflict,
// read again, and get their turn. Sessions do not mix.
func TestSessionsAreAppendedByOne(t *testing.T) {
	b := bustest.New(t)
	const writers, each = 8, 10
	var group, read sync.WaitGroup
	var conflicts atomic.Int64
	read.Add(writers)
	for w := range writers {
		group.Go(func() {
			session := fmt.Sprint("s", w%2)
			meet := sync.OnceFunc(func() { read.Done(); read.Wait() })
			for n := range each {
				for {
					_, last, err := b.ReadSession(t.Context(), session)
					meet() // all have read the empty log before one appends
					if err == nil {
						_, err = b.AppendSession(t.Context(), session, last, fmt.Append(nil, w, ":", n))
					}
					if err == nil {
						break
					}
					if !errors.Is(err, bus.ErrConflict) {
						t.Error(err)
						return
					}
					conflicts.Add(1)
				}
			}
		})
	}
	group.Wait()
	if conflicts.Load() < writers-2 {
		t.Errorf("%d conflicts; all but one writer of each session had read too early", conflicts.Load())
	}
	for _, session := range []string{"s0", "s1"} {
		entries, last, err := b.ReadSession(t.Context(), session)
		if err != nil || len(entries) != writers/2*each {
			t.Errorf("%s: %d entries, %v", session, len(entries), err)
		}
		next := map[int]int{}
		for _, e := range entries {
			var w, n int
			if _, err := fmt.Sscanf(string(e), "%d:%d", &w, &n); err != nil {
				t.Fatalf("%q: %v", e, err)
			}
			if n != next[w] || fmt.Sprint("s", w%2) != session {
				t.Errorf("%s has %q where entry %d of the writer is due", session, e, next[w])
			}
			next[w]++
		}
		if _, err := b.AppendSession(t.Context(), session, last-1, []byte("late")); !errors.Is(err, bus.ErrConflict) {
			t.Errorf("an append behind the last: %v", err)
		}
	}
	sizes, err := b.ListSessions(t.Context())
	if want := []bus.SessionSize{{"s0", 40}, {"s1", 40}}; err != nil || fmt.Sprint(sizes) != fmt.Sprint(want) {
		t.Errorf("sessions %v, %v; want %v", sizes, err, want)
	}
}

func TestSessionEntryTooLarge(t *testing.T) {
	b := bustest.New(t)
	_, err := b.AppendSession(t.Context(), "s", 0, make([]byte, b.Conn().MaxPayload()+1))
	if !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	if entries, last, err := b.ReadSession(t.Context(), "s"); len(entries) != 0 || last != 0 || err != nil {
		t.Errorf("%d entries, last %d, %v", len(entries), last, err)
	}
}

// The acknowledgement is lost, and the entry is there: the append that is tried
// again finds its own entry in the way, and knows it.
func TestSessionAppendSurvivesLostAck(t *testing.T) {
	s := bustest.Listen(t)
	direct := bustest.Connect(t, s, bus.Config{Log: bustest.Log(t)})
	p := bustest.NewProxy(t, s)
	b := p.Connect(t)
	if _, err := b.AppendSession(t.Context(), "s", 0, []byte("first")); err != nil {
		t.Fatal(err)
	}

	p.DropReplies()
	type answer struct {
		sequence uint64
		err      error
	}
	done := make(chan answer, 1)
	go func() {
		sequence, err := b.AppendSession(t.Context(), "s", 1, []byte("second"))
		done <- answer{sequence, err}
	}()
	for stored := 0; stored < 2; {
		entries, _, err := direct.ReadSession(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		stored = len(entries)
	}
	p.Cut()
	p.Heal()
	if got := <-done; got.err != nil || got.sequence != 2 {
		t.Errorf("sequence %d, error %v; want 2", got.sequence, got.err)
	}
	if entries, _, err := direct.ReadSession(t.Context(), "s"); len(entries) != 2 || err != nil {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	// The same bytes of somebody else are not ours.
	if _, err := b.AppendSession(t.Context(), "s", 1, []byte("second")); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("error %v, want a conflict", err)
	}
}
