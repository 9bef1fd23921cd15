package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// A call that is retried after it became a dead letter replaces its old message, which may
// still be stored; a second retry of the same letter stores nothing.
func TestRetryOfACallThatIsStillStored(t *testing.T) {
	b := bustest.New(t)
	subject := b.Call("q", "x", "s", "q0")
	if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	letter := dead.Stored{Letter: dead.Letter{
		Kind: bus.DeadCall, Name: "x", Code: "test", Subject: subject, Sequence: 1, ID: "q0", At: time.Now(), Body: []byte(`{"n":1}`),
	}}
	for range 2 {
		if err := retry(t.Context(), b, letter); err != nil {
			t.Fatal(err)
		}
	}
	m, err := b.Last(t.Context(), bus.Calls, subject)
	if string(m.Body) != `{"n":1}` || m.Sequence != 2 || err != nil {
		t.Errorf("message %d is %s, %v", m.Sequence, m.Body, err)
	}
	letter.Sequence = 99 // the letter of an earlier message; the call was submitted again
	letter.At = letter.At.Add(time.Second)
	if err := retry(t.Context(), b, letter); !errors.Is(err, bus.ErrSubjectExists) {
		t.Errorf("retried over a call that waits: %v", err)
	}
}

// retry republishes a dead letter and removes it, as rpc.ChangeLetters does with one that has no result.
func retry(ctx context.Context, b *bus.Bus, letter dead.Stored) error {
	if err := dead.Republish(ctx, b, letter); err != nil {
		return err
	}
	return dead.Remove(ctx, b, letter)
}
