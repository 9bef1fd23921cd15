package bus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// fillStream publishes to the subjects that subject returns until the stream is full, and
// returns how many messages it accepted; limit if it accepts any number.
func fillStream(t *testing.T, b *bus.Bus, limit int, subject func(i int) string) (accepted int) {
	t.Helper()
	for i := range limit {
		_, err := b.Publish(t.Context(), bus.Message{Subject: subject(i), Body: make([]byte, 4<<10), Key: fmt.Sprint("k", i)})
		if errors.Is(err, bus.ErrFull) {
			return i
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return limit
}

// Every stream whose messages are work rejects new ones when it is full, and keeps the
// accepted ones. Only dead letters replace their oldest ones.
func TestFullStreamsReject(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Start(t, embedded.Config{Dir: t.TempDir(), NoSync: true}), bus.Config{MaxBytes: 64 << 10})
	const limit = 100
	for stream, subject := range map[string]func(i int) string{
		bus.Calls:    func(i int) string { return b.Call("default", "echo", "s", fmt.Sprint("c", i)) },
		bus.Results:  func(i int) string { return b.Result("s", fmt.Sprint("c", i)) },
		bus.Outbox:   func(int) string { return b.NotifyAny("console") },
		bus.Sessions: func(int) string { return b.Prefix() + ".session.s" },
		bus.Dead:     func(int) string { return b.Dead(bus.DeadCall, "echo") },
	} {
		accepted := fillStream(t, b, limit, subject)
		stored := bustest.Messages(t, b, stream)
		if rejects := stream != bus.Dead; rejects != (accepted < limit) || rejects != (int(stored) == accepted) {
			t.Errorf("stream %s accepted %d messages of %d and stores %d", stream, accepted, limit, stored)
		}
	}
}

// FreshHeader says that no call with the id was stored before. That need not be true when a
// publish is repeated.
func TestRepeatedPublishIsNotFresh(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Start(t, embedded.Config{Dir: t.TempDir(), NoSync: true}), bus.Config{MaxBytes: 64 << 10})
	fillStream(t, b, 100, func(i int) string { return b.Call("default", "echo", "s", fmt.Sprint("c", i)) })
	subject := b.Call("default", "echo", "s", "fresh")
	published := make(chan error, 1)
	go func() {
		_, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: make([]byte, 4<<10), Header: nats.Header{bus.FreshHeader: {"1"}}, WaitIfFull: true})
		published <- err
	}()
	bustest.WaitUntil(t, "a refusal", func() bool {
		refusal, ok := b.Space().LastRefusal()
		return ok && refusal.Subject == subject
	})
	stream, err := b.Stream(t.Context(), bus.Calls)
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-published:
	case <-time.After(bustest.Timeout):
		err = errors.New("it was not published")
	}
	if err != nil {
		t.Fatal(err)
	}
	stored, err := stream.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Header.Get(bus.FreshHeader) != "" {
		t.Error("the repeated publish says that its call is new")
	}
}
