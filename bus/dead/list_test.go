package dead_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// list returns the dead letters of a kind (empty: all) after a number.
func list(t *testing.T, b *bus.Bus, kind string, after uint64) []dead.Stored {
	t.Helper()
	page, err := dead.ListPage(t.Context(), b, dead.Query{Kind: kind, After: after})
	if err != nil {
		t.Fatal(err)
	}
	return page.Letters
}

// Dead letters can be listed, read, retried with their id, and removed.
func TestRetryDeadLetters(t *testing.T) {
	b := bustest.New(t)
	arriving := bustest.Subscribe(t, b, "stevedore.dead.call.*")
	handled := make(chan string, 10)
	fail := make(chan bool, 10)
	run(t, b, consume.Config{}, func(_ context.Context, d *consume.Delivery) error {
		if <-fail {
			return consume.Reject("hopeless", errors.New("it cannot be done"))
		}
		handled <- d.ID() + " " + string(d.Body)
		return nil
	})
	bodies := []string{`{"id":"a"}`, "not \xff JSON", `{"id":"` + strings.Repeat("x", 200_000) + `"}`}
	for i, body := range bodies {
		fail <- true
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", "tool", "s", fmt.Sprint("c", i)), Body: []byte(body), Key: fmt.Sprint("key", i)}); err != nil {
			t.Fatal(err)
		}
		bustest.Next[dead.Letter](t, arriving)
	}
	letters := list(t, b, bus.DeadCall, 0)
	var after []uint64
	for _, letter := range list(t, b, bus.DeadCall, letters[0].Number) {
		after = append(after, letter.Number)
	}
	if len(after) != 2 || after[0] != letters[1].Number || after[1] != letters[2].Number {
		t.Errorf("after the first: letters %v", after)
	}
	if len(letters) != len(bodies) {
		t.Fatalf("%d dead letters, want %d", len(letters), len(bodies))
	}
	for i, letter := range letters {
		again, err := dead.Get(t.Context(), b, letter.Number)
		if err != nil || again.ID != fmt.Sprint("key", i) || again.Reason != "it cannot be done" {
			t.Errorf("letter %+v, %v", again, err)
		}
		fail <- false
		if err := retry(t.Context(), b, letter); err != nil {
			t.Fatal(err)
		}
		if got, want := <-handled, fmt.Sprintf("key%d %s", i, bodies[i]); got != want {
			t.Errorf("handled %.60q, want %.60q", got, want)
		}
		if _, err := dead.Get(t.Context(), b, letter.Number); !errors.Is(err, dead.ErrNone) {
			t.Errorf("after the retry: %v", err)
		}
	}
	for _, letter := range list(t, b, "", 0) {
		t.Errorf("left: %+v", letter)
	}
}

// Letters that are removed together go with one request for each kind and name, except those
// after a letter that stays. Other messages of the stream stay.
func TestRemoveAll(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	put := func(kind, name, body string) {
		t.Helper()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Dead(kind, name), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	const letter = `{"subject":"stevedore.call.default.x.s.c"}`
	for range 100 {
		put(bus.DeadCall, "x", letter)
		put(bus.DeadCall, "y", letter)
		put(bus.DeadNotification, "x", letter)
	}
	list := func() []dead.Stored { return list(t, b, bus.DeadCall, 0) }
	all := list()
	kept := all[len(all)-4] // of x; the next one of x is removed with a request of its own
	remove := slices.DeleteFunc(slices.Clone(all), func(l dead.Stored) bool { return l.Number == kept.Number })
	put(bus.DeadCall, "x", letter) // meanwhile
	before, done := b.Conn().Stats().OutMsgs, []dead.Stored{}
	dead.RemoveAll(t.Context(), b, remove, func(l dead.Stored, err error) {
		if err != nil {
			t.Error(err)
		}
		done = append(done, l)
	})
	if sent := b.Conn().Stats().OutMsgs - before; sent > 50 {
		t.Errorf("%d requests for %d letters", sent, len(remove))
	}
	if len(done) != len(remove) || done[0].Number != remove[0].Number || done[len(done)-1].Number != remove[len(remove)-1].Number {
		t.Errorf("%d of %d letters are done, or not in order", len(done), len(remove))
	}
	if left := list(); len(left) != 2 || left[0].Number != kept.Number || left[1].Number <= all[len(all)-1].Number {
		t.Errorf("left: %+v, want letter %d and a new one", left, kept.Number)
	}
	if n := bustest.Messages(t, b, bus.Dead); n != 102 {
		t.Errorf("the stream has %d messages, want 100 notifications and 2 calls", n)
	}
}
