package rpc_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

func TestMain(m *testing.M) {
	ats.Register() // the server's clock, outside of all bubbles
	code := m.Run()
	ats.Unregister()
	os.Exit(code)
}

// A call that waits or runs longer than its stream knows its key is not made a
// second time by whoever waits for it again: a parent agent, say, that was taken
// up by another worker. One that is not there any more, and has no result, is
// made again. The time is virtual.
func TestSubmitAgainAfterTheKeyIsForgotten(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Provision(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
		if err != nil {
			t.Fatal(err)
		}
		waiting := func() uint64 {
			info, err := stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return info.State.Msgs
		}
		submit := func(call tools.Call, patience time.Duration) (tools.ResultEvent, error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return rpc.Submit(ctx, b, "default", call)
		}
		call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
		for _, c := range []tools.Call{{ID: "c0", Session: "s1", Tool: "echo"}, {ID: "c1", Session: "s0", Tool: "echo"}, call} {
			if _, err := submit(c, time.Second); err == nil {
				t.Fatal("a result without a worker")
			}
		}
		time.Sleep(11 * time.Minute)
		if _, err := submit(call, time.Second); err == nil || waiting() != 3 {
			t.Errorf("%d calls wait (%v), want 3", waiting(), err)
		}
		// One that nobody has any more is made again, and so is a new one.
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := submit(call, time.Second); err == nil || waiting() != 1 {
			t.Errorf("%d calls wait (%v), want 1", waiting(), err)
		}
		time.Sleep(11 * time.Minute)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s1", "c1"), Body: result(t, call, "done")}); err != nil {
			t.Fatal(err)
		}
		if event, err := submit(call, time.Minute); err != nil || event.ForLLM != "done" || waiting() != 1 {
			t.Errorf("%d calls wait (%v), the result is %q", waiting(), err, event.ForLLM)
		}
	})
}

// A call that a stopping worker handed back is a new message with another key:
// however young that is, the call is not made a second time when its own key is
// forgotten. The time is virtual.
func TestSubmitAgainAfterAHandBack(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Provision(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		submit := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := rpc.Submit(ctx, b, "default", tools.Call{ID: "c1", Session: "s1", Tool: "echo"}); err == nil {
				t.Fatal("a result without a worker")
			}
		}
		submit()
		time.Sleep(9 * time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		err = b.Consume(ctx, b.WorkerConsumer("default"), bus.ConsumeConfig{Grace: time.Second}, func(ctx context.Context, d *bus.Delivery) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		submit()
		stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context())
		if err != nil || info.State.Msgs != 1 {
			t.Errorf("%d calls wait, %v; want the one that was handed back", info.State.Msgs, err)
		}
	})
}

// A message that is given up on has one letter, with the first reason, however
// long telling of it fails. The time is virtual.
func TestOneLetterWhileTellingOfItFails(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Provision(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", "x"), Body: []byte(`{"id":"1"}`), Key: "k"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		told := 0
		cfg := bus.ConsumeConfig{MaxAttempts: 1, OnDeadLetter: func(context.Context, *bus.Delivery, bus.StoredDeadLetter) error {
			told++
			return errors.New("the results are full")
		}}
		err = b.Consume(ctx, b.WorkerConsumer("default"), cfg, func(context.Context, *bus.Delivery) error { return errors.New("the real reason") })
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for l, err := range b.DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, l.Reason)
		}
		if len(reasons) != 1 || reasons[0] != "the real reason" || told < 3 {
			t.Errorf("told %d times; letters %q", told, reasons)
		}
	})
}
