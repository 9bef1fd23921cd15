package dead_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// A client that may write dead letters cannot make a worker publish on another subject: the
// retry of such a letter fails, publishes nothing and keeps the letter.
func TestForgedLetterIsNotRetried(t *testing.T) {
	b := bustest.New(t)
	for _, subject := range []string{"stevedore.result.s.c", "stevedore.claim.s.c", "stevedore.call.other.tool", "stevedore.notify.console", "elsewhere"} {
		body, err := json.Marshal(map[string]any{"subject": subject, "kind": bus.DeadCall, "name": "default", "body": json.RawMessage(`{"id":"c","session":"s","outcome":"completed"}`)})
		if err != nil {
			t.Fatal(err)
		}
		ack, err := b.JetStream().Publish(t.Context(), "stevedore.dead.call.default", body)
		if err != nil {
			t.Fatal(err)
		}
		letter, err := dead.Get(t.Context(), b, ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if err := retry(t.Context(), b, letter); err == nil || !strings.Contains(err.Error(), "do not match") {
			t.Errorf("the retry of a letter with the subject %q: %v", subject, err)
		}
		if _, err := dead.Get(t.Context(), b, ack.Sequence); err != nil {
			t.Errorf("the letter with the subject %q: %v", subject, err)
		}
	}
	ack, err := b.JetStream().Publish(t.Context(), "stevedore.dead.call.default", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	letters := list(t, b, "", 0)
	if n, err := dead.Count(t.Context(), b); err != nil || int(n) != len(letters) {
		t.Errorf("%d letters, listed %d, %v", n, len(letters), err)
	}
	garbage := letters[len(letters)-1]
	if garbage.Number != ack.Sequence || !strings.Contains(garbage.Reason, "this is no dead letter") || retry(t.Context(), b, garbage) == nil {
		t.Errorf("the letter that is none: %+v", garbage)
	}
	dead.RemoveAll(t.Context(), b, letters, func(_ dead.Stored, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	for _, stream := range []string{bus.Dead, bus.Results, bus.Calls, bus.Calls, bus.Outbox} {
		if n := bustest.Messages(t, b, stream); n != 0 {
			t.Errorf("%s has %d messages", stream, n)
		}
	}
}
