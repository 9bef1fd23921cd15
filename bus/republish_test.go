package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// A client that publishes first under the key of another message suppresses nothing, also
// if it knows the second key. A copy is dropped.
func TestForeignKeySuppressesNothing(t *testing.T) {
	b := bustest.New(t)
	msg := bus.Message{Subject: b.NotifyAny("victim"), Body: []byte(`{"text":"mine"}`), Key: "result.s2.c1"}
	steal := func(key string) {
		t.Helper()
		forged := &nats.Msg{Subject: b.NotifyAny("other"), Data: []byte(`{"text":"forged"}`), Header: nats.Header{"Nats-Msg-Id": {key}}}
		if _, err := b.JetStream().PublishMsg(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
	}
	steal(msg.Key)
	var stored bus.Ack
	for i := range 3 {
		ack, err := b.Publish(t.Context(), msg)
		if err != nil || i > 0 && (ack.Sequence != stored.Sequence || !ack.Duplicate) {
			t.Errorf("publish %d: %+v, %v; stored as %+v", i, ack, err, stored)
		}
		stored = ack
	}
	if m, err := b.Last(t.Context(), bus.Outbox, msg.Subject); string(m.Body) != string(msg.Body) || m.Sequence != stored.Sequence {
		t.Errorf("stored %s at %d, %v", m.Body, m.Sequence, err)
	}
	m, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Outbox))
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.GetMsg(t.Context(), stored.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	second := got.Header.Get("Nats-Msg-Id")
	if err := m.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	steal("k")
	steal(second)
	if ack, err := b.Publish(t.Context(), msg); err != nil || ack.Duplicate {
		t.Errorf("with both keys stolen: %+v, %v", ack, err)
	}
	if m, err := b.Last(t.Context(), bus.Outbox, msg.Subject); string(m.Body) != string(msg.Body) {
		t.Errorf("stored %s, %v", m.Body, err)
	}
}

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
