package session_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/session"
)

// If many writers read the same log, one of them appends. The others get a conflict,
// read again, and append later. Sessions are independent.
func TestSessionsAreAppendedByOne(t *testing.T) {
	t.Parallel()
	log := session.New(bustest.New(t))
	const writers, each = 8, 10
	var group, read sync.WaitGroup
	var conflicts atomic.Int64
	read.Add(writers)
	for w := range writers {
		group.Go(func() {
			id := fmt.Sprint("s", w%2)
			meet := sync.OnceFunc(func() { read.Done(); read.Wait() })
			for n := range each {
				for {
					_, last, err := log.Read(t.Context(), id, 0)
					meet() // all have read the empty log before one appends
					if err == nil {
						_, err = log.Append(t.Context(), id, last, fmt.Append(nil, w, ":", n))
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
		t.Errorf("%d conflicts; want one for all but one writer of each session", conflicts.Load())
	}
	for _, id := range []string{"s0", "s1"} {
		entries, last, err := log.Read(t.Context(), id, 0)
		if err != nil || len(entries) != writers/2*each {
			t.Errorf("%s: %d entries, %v", id, len(entries), err)
		}
		next := map[int]int{}
		for _, e := range entries {
			var w, n int
			if _, err := fmt.Sscanf(string(e), "%d:%d", &w, &n); err != nil {
				t.Fatalf("%q: %v", e, err)
			}
			if n != next[w] || fmt.Sprint("s", w%2) != id {
				t.Errorf("%s has %q, want entry %d of the writer", id, e, next[w])
			}
			next[w]++
		}
		if _, err := log.Append(t.Context(), id, last-1, []byte("late")); !errors.Is(err, bus.ErrConflict) {
			t.Errorf("an append behind the last: %v", err)
		}
	}
	names, err := log.List(t.Context())
	if want := []string{"s0", "s1"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("sessions %v, %v; want %v", names, err, want)
	}
}

func TestSessionEntryTooLarge(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	log := session.New(b)
	_, err := log.Append(t.Context(), "s", 0, make([]byte, b.Conn().MaxPayload()+1))
	if !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	if entries, last, err := log.Read(t.Context(), "s", 0); len(entries) != 0 || last != 0 || err != nil {
		t.Errorf("%d entries, last %d, %v", len(entries), last, err)
	}
}

// The entry is stored, but the acknowledgement is lost. The retried append recognizes
// its own entry.
func TestSessionAppendSurvivesLostAck(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	direct := bustest.Connect(t, s, bus.Config{Log: bustest.Log(t)})
	p := bustest.NewProxy(t, s)
	log := session.New(p.Connect(t))
	if _, err := log.Append(t.Context(), "s", 0, []byte("first")); err != nil {
		t.Fatal(err)
	}

	p.DropReplies()
	type answer struct {
		sequence uint64
		err      error
	}
	done := make(chan answer, 1)
	go func() {
		sequence, err := log.Append(t.Context(), "s", 1, []byte("second"))
		done <- answer{sequence, err}
	}()
	for stored := 0; stored < 2; {
		entries, _, err := session.New(direct).Read(t.Context(), "s", 0)
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
	if entries, _, err := session.New(direct).Read(t.Context(), "s", 0); len(entries) != 2 || err != nil {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	// Another append of the same bytes is a conflict.
	if _, err := log.Append(t.Context(), "s", 1, []byte("second")); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("error %v, want a conflict", err)
	}
}

// Remove deletes one session, and not the entries that another writer added meanwhile.
func TestSessionRemove(t *testing.T) {
	t.Parallel()
	log := session.New(bustest.New(t))
	var last uint64
	for i := range 3 {
		var err error
		if last, err = log.Append(t.Context(), "s", last, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.Append(t.Context(), "other", 0, []byte("kept")); err != nil {
		t.Fatal(err)
	}
	late, err := log.Append(t.Context(), "s", last, []byte("late"))
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Remove(t.Context(), "s", last); err != nil {
		t.Fatal(err)
	}
	if entries, _, err := log.Read(t.Context(), "s", 0); err != nil || len(entries) != 1 || string(entries[0]) != "late" {
		t.Errorf("entries %q, %v; want the late one", entries, err)
	}
	if err := log.Remove(t.Context(), "s", late); err != nil {
		t.Fatal(err)
	}
	names, err := log.List(t.Context())
	if want := []string{"other"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("sessions %v, %v; want %v", names, err, want)
	}
	if position, err := log.Append(t.Context(), "s", 0, []byte("anew")); err != nil || position == 0 {
		t.Errorf("an append to a removed session: %d, %v", position, err)
	}
}

// A conversation does not end early because the replica that answers lags behind.
func TestReadBesideAReplicaThatLags(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	log := session.New(b)
	if _, err := log.Append(t.Context(), "s", 0, []byte("entry")); err != nil {
		t.Fatal(err)
	}
	bustest.Lag(t, b.JetStream(), b.StreamName(bus.Sessions), b.Session("s"))
	for range 20 {
		if entries, last, err := log.Read(t.Context(), "s", 0); err != nil || len(entries) != 1 || last != 1 {
			t.Fatalf("read %d entries up to %d, %v", len(entries), last, err)
		}
	}
}
