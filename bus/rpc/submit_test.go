package rpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

type outcome struct {
	event tools.ResultEvent
	err   error
}

// submit submits a call in the background and returns when it was published.
func submit(t *testing.T, b *bus.Bus, call tools.Call) <-chan outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Timeout)
	t.Cleanup(cancel)
	accepted := bustest.Subscribe(t, b, b.Call("default", call.Tool, "*", "*"))
	answer := make(chan outcome, 1)
	go func() {
		event, err := rpc.Submit(ctx, b, "default", call)
		answer <- outcome{event, err}
	}()
	bustest.Next[tools.Call](t, accepted)
	return answer
}

func result(t *testing.T, call tools.Call, text string) []byte {
	t.Helper()
	event := tools.NewResultEvent(call, tools.NewToolResult(text))
	event.Digest = call.Digest()
	body, err := bus.Encode(event)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Only an id that the publisher made is certainly new: a publisher may stop for a while between
// its look for a result and its publish.
func TestOnlyOwnIdsAreFresh(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for id, want := range map[string]string{"": "1", "given": ""} {
		accepted := bustest.Subscribe(t, b, b.Call("default", "*", "*", "*"))
		if _, err := rpc.Enqueue(t.Context(), b, "default", tools.Call{ID: id, Session: "s", Tool: "echo", Priority: "low"}); err != nil {
			t.Fatal(err)
		}
		msg, err := accepted.NextMsg(bustest.Timeout)
		if err != nil || msg.Header.Get(bus.FreshHeader) != want || msg.Header.Get(bus.PriorityHeader) != "low" {
			t.Errorf("id %q: header %v, %v", id, msg.Header, err)
		}
	}
}

// The stream rejects a second result, but the server delivers it to the subscribers
// of the subject.
func TestSubmitReturnsTheStoredResult(t *testing.T) {
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	subject := b.Result("s1", "c1")
	answer := submit(t, b, call)
	if _, err := b.JetStream().Publish(t.Context(), subject, result(t, call, "refused"), jetstream.WithExpectLastSequence(99)); err == nil {
		t.Fatal("the stream accepted a second result")
	}
	if _, err := b.JetStream().Publish(t.Context(), subject, result(t, call, "first")); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	if got.err != nil || got.event.ForLLM != "first" {
		t.Errorf("Submit = %q, %v; want the first result", got.event.ForLLM, got.err)
	}
}

// A call that has a result gets it, although the calls stream does not have the call any
// more; also if the queue has no worker and the stream is full.
func TestSubmitOfAFinishedCall(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 8 << 10})
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	if _, err := b.JetStream().Publish(t.Context(), b.Result("s1", "c1"), result(t, call, "first")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := rpc.Submit(t.Context(), b, "default", call)
		if err != nil || got.ForLLM != "first" {
			t.Errorf("Submit = %q, %v", got.ForLLM, err)
		}
		accepted, err := rpc.Enqueue(t.Context(), b, "default", call)
		if err != nil || !accepted.Duplicate || accepted.Outcome != tools.Completed {
			t.Errorf("Enqueue = %+v, %v", accepted, err)
		}
		var full error
		for full == nil { // for the second round
			_, full = rpc.Enqueue(t.Context(), b, "default", tools.Call{Tool: "echo", Args: []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)})
		}
		if !errors.Is(full, bus.ErrFull) {
			t.Fatal(full)
		}
	}
}

func TestSubmitReturnsADeadLetter(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	answer := submit(t, b, call)
	letter := `{"subject":"` + b.Call("default", "echo", "s1", "c1") + `","code":"undecodable","reason":"it was no use"}`
	if err := b.Conn().Publish(b.Dead(bus.DeadCall, "echo"), []byte(letter)); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	dead, ok := errors.AsType[*rpc.DeadLetterError](got.err)
	if !ok || dead.Code != "undecodable" || !strings.Contains(dead.Error(), "it was no use") {
		t.Errorf("Submit = %v; want the dead letter", got.err)
	}
}

func TestSubmitRejectsTheIDOfAnotherCall(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	if _, err := b.JetStream().Publish(t.Context(), b.Result("s1", "c1"), result(t, call, "first")); err != nil {
		t.Fatal(err)
	}
	call.Args = []byte(`{"text":"something else"}`)
	_, err := rpc.Submit(t.Context(), b, "default", call)
	if got := tools.CodeOf(err); got != tools.CodeMismatch {
		t.Errorf("Submit = %v (%s); want %s", err, got, tools.CodeMismatch)
	}
}

func TestSubmitOfTooLargeCallNamesTheLimit(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo", Args: []byte(`{"text":"` + strings.Repeat("x", 2<<20) + `"}`)}
	_, err := rpc.Submit(t.Context(), b, "default", call)
	if got := tools.CodeOf(err); got != tools.CodeInvalidCall || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("Submit = %v (%s); want %s with the limit", err, got, tools.CodeInvalidCall)
	}
	if n := bustest.Waiting(t, b); n != 0 {
		t.Errorf("%d calls were stored, want none", n)
	}
}

// A limit of the stream is not that of the server.
func TestSubmitOfACallThatTheStreamRefuses(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	config.MaxMsgSize = 300
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo", Args: []byte(`{"text":"` + strings.Repeat("x", 500) + `"}`)}
	_, err = rpc.Submit(t.Context(), b, "default", call)
	if !errors.Is(err, bus.ErrTooLarge) || strings.Contains(err.Error(), "1048576") {
		t.Errorf("Submit = %v", err)
	}
}

// A message on the result subject that the stream does not store is not a result.
func TestSubmitIgnoresMessagesThatAreNotStored(t *testing.T) {
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	answer := submit(t, b, call)
	if err := b.Conn().PublishMsg(&nats.Msg{Subject: b.Result("s1", "c1"), Data: []byte("nonsense that no stream may keep"), Header: nats.Header{
		jetstream.ExpectedStreamHeader: {"NO_SUCH_STREAM"},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().Publish(t.Context(), b.Result("s1", "c1"), result(t, call, "first")); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got.err != nil || got.event.ForLLM != "first" {
		t.Errorf("Submit = %q, %v; want the result in the stream", got.event.ForLLM, got.err)
	}
}

// The error is ErrPending if the call was stored, and only then.
func TestSubmitReportsWhetherTheCallIsStored(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{Timeout: 200 * time.Millisecond})
		call := tools.Call{ID: "a", Session: "s", Tool: "x"}
		submit := func(timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := rpc.Submit(ctx, b, "default", call)
			return err
		}
		if err := submit(500 * time.Millisecond); !errors.Is(err, rpc.ErrPending) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no worker: %v, want ErrPending", err)
		}
		subscriptions := b.Conn().NumSubscriptions()
		if err := submit(0); err == nil || errors.Is(err, rpc.ErrPending) {
			t.Errorf("no time to submit: %v", err)
		}
		s.Close()
		if err := submit(time.Second); err == nil || errors.Is(err, rpc.ErrPending) || !strings.Contains(err.Error(), "submit call") {
			t.Errorf("no server: %v", err)
		}
		if n := b.Conn().NumSubscriptions(); n != subscriptions {
			t.Errorf("%d subscriptions, %d before", n, subscriptions)
		}
	})
}

// A raw result goes to the queue of the client's zone, as a call does.
func TestRawResultOfAZone(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{Zone: "east"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		raw := tools.RawEvent{Call: tools.Call{ID: "a", Session: "s", Tool: "x"}}
		if _, err := rpc.SubmitRaw(ctx, b, "", raw); !errors.Is(err, rpc.ErrPending) {
			t.Fatal(err)
		}
		if m, err := b.Last(t.Context(), bus.Calls, b.Raw(bus.ZoneQueue("east"), "x", "s", "a")); err != nil || m.Sequence == 0 {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

// An invalid call is rejected before it is published.
func TestInvalidCallsAreRejected(t *testing.T) {
	b := bustest.New(t)
	for _, test := range []struct{ name, err, want string }{
		{"submit a tool with a space", errOf(rpc.Submit(t.Context(), b, "default", tools.Call{Tool: "x y"})), `invalid tool "x y" or queue "default"`},
		{"submit to a queue with a dot", errOf(rpc.Submit(t.Context(), b, "a.", tools.Call{Tool: "x"})), `invalid tool "x" or queue "a."`},
		{"submit nothing", errOf(rpc.Submit(t.Context(), b, "default", tools.Call{})), "names no tool"},
		{"an unknown priority", errOf(rpc.Submit(t.Context(), b, "default", tools.Call{Tool: "x", Priority: "urgent"})), `the priority "urgent"; use low, normal or high`},
		{"complete no tool", errOf(rpc.AwaitCompletion(t.Context(), b, tools.Call{ID: "1"})), "names no tool"},
		{"complete no call", errOf(rpc.AwaitCompletion(t.Context(), b, tools.Call{Tool: "x"})), "has no id"},
	} {
		if !strings.Contains(test.err, test.want) {
			t.Errorf("%s: %q, want %q", test.name, test.err, test.want)
		}
	}
}

func errOf(_ tools.ResultEvent, err error) string {
	if err == nil {
		return ""
	}
	return err.Error() + " " + tools.CodeOf(err)
}

func TestSubmitToTheDefaultQueue(t *testing.T) {
	b := bustest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	accepted := bustest.Subscribe(t, b, b.Call(bus.DefaultQueue, "echo", "*", "*"))
	ended := make(chan error, 1)
	go func() {
		_, err := rpc.Submit(ctx, b, "", tools.Call{Tool: "echo"})
		ended <- err
	}()
	bustest.Next[tools.Call](t, accepted)
	cancel()
	if err := <-ended; !errors.Is(err, rpc.ErrPending) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
