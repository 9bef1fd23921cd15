package task_test

import (
	"errors"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
)

// A call has no stored event, a result, or a result and a completion. A message that is
// not a result counts as none.
func TestReadResults(t *testing.T) {
	b := bustest.New(t)
	store := func(subject, body string) {
		t.Helper()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	store(b.Result("s", "done"), `{"id":"done","session":"s","outcome":"completed"}`)
	store(b.Result("s", "started"), `{"id":"started","session":"s","outcome":"async"}`)
	store(b.Result("s", "ended"), `{"id":"ended","session":"s","outcome":"async"}`)
	store(b.Completion("s", "ended"), `{"id":"ended","session":"s","outcome":"failed"}`)
	store(b.Result("s", "unreadable"), `[]`)
	for call, want := range map[string]struct {
		events int
		ended  bool
	}{"none": {0, false}, "unreadable": {0, false}, "done": {1, true}, "started": {1, false}, "ended": {2, true}} {
		stored, err := task.ReadResults(t.Context(), b, "s", call)
		if err != nil || len(stored) != want.events || task.Ended(stored) != want.ended {
			t.Errorf("%s: %+v, %v; want %+v", call, stored, err, want)
		}
	}
	if _, err := task.DecodeResult(b, b.Result("s", "unreadable"), []byte(`[]`)); !errors.Is(err, task.ErrUnreadable) {
		t.Errorf("unreadable: %v", err)
	}
}
