package dead_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// Dead letters can be listed, read, retried with their id, and removed.
func TestRetryDeadLetters(t *testing.T) {
	b := bustest.New(t)
	arriving := bustest.Subscribe(t, b, "stevedore.dead.call.*")
	handled := make(chan string, 10)
	fail := make(chan bool, 10)
	consume(t, b, bus.ConsumeConfig{}, func(_ context.Context, d *bus.Delivery) error {
		if <-fail {
			return bus.Reject("hopeless", errors.New("it cannot be done"))
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
	var letters []dead.Stored
	for letter, err := range dead.List(t.Context(), b, bus.DeadCall, 0) {
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, letter)
	}
	var after []uint64
	for letter, err := range dead.List(t.Context(), b, bus.DeadCall, letters[0].Number) {
		if err != nil {
			t.Fatal(err)
		}
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
		if err := dead.Retry(t.Context(), b, letter); err != nil {
			t.Fatal(err)
		}
		if got, want := <-handled, fmt.Sprintf("key%d %s", i, bodies[i]); got != want {
			t.Errorf("handled %.60q, want %.60q", got, want)
		}
		if _, err := dead.Get(t.Context(), b, letter.Number); !errors.Is(err, dead.ErrNone) {
			t.Errorf("after the retry: %v", err)
		}
	}
	for letter, err := range dead.List(t.Context(), b, "", 0) {
		t.Errorf("left: %+v, %v", letter, err)
	}
}
