package dead_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/tools"
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

// A letter that names the message of another letter, or its body, neither shows nor publishes it, and its removal leaves it there.
func TestForgedLetterHasNoBodyOfAnother(t *testing.T) {
	b := bustest.New(t)
	random := make([]byte, b.Conn().MaxPayload()-100)
	_, _ = rand.Read(random)
	of := bus.Stored{Subject: b.Call("default", "x", "another", "c"), Body: random}
	stored, err := b.Publish(t.Context(), bus.Message{Subject: of.Subject, Body: of.Body})
	if err != nil {
		t.Fatal(err)
	}
	of.Sequence = stored.Sequence
	if err := dead.GiveUp(t.Context(), b, bus.Calls, of, 1, "code", errors.New("a reason")); err != nil {
		t.Fatal(err)
	}
	another := list(t, b, "", 0)[0]
	hash := tools.Token(of.Subject) // the name of that body
	for _, forgery := range []struct {
		name     string
		sequence uint64
	}{{"x", another.Number}, {"x", another.BodySequence}, {hash, another.BodySequence}, {"x", 1000}} {
		sequence := forgery.sequence
		body, err := bus.Encode(dead.Letter{Subject: b.Call("default", forgery.name, "s", "c"), BodySequence: sequence})
		if err != nil {
			t.Fatal(err)
		}
		ack, err := b.Publish(t.Context(), bus.Message{Subject: b.Dead(bus.DeadCall, forgery.name), Body: body})
		if err != nil {
			t.Fatal(err)
		}
		forged, err := dead.Get(t.Context(), b, ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := forged.Message(t.Context(), b); len(body) > 0 || !errors.Is(err, dead.ErrNoBody) {
			t.Errorf("sequence %d: %d bytes, %v", sequence, len(body), err)
		}
		if err := retry(t.Context(), b, forged); !errors.Is(err, dead.ErrNoBody) {
			t.Errorf("sequence %d: the retry: %v", sequence, err)
		}
		if err := dead.Remove(t.Context(), b, forged); err != nil {
			t.Error(err)
		}
	}
	if left := list(t, b, "", 0); len(left) != 1 || left[0].Number != another.Number {
		t.Errorf("letters: %+v", left)
	}
	if body, err := another.Message(t.Context(), b); err != nil || !bytes.Equal(body, random) {
		t.Errorf("the body of the other letter: %d bytes, %v", len(body), err)
	}
}
