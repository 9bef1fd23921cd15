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

type answered struct {
	event tools.ResultEvent
	err   error
}

// submit submits in the background and returns once the call is in its stream.
func submit(t *testing.T, b *bus.Bus, call tools.Call) <-chan answered {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	accepted := bustest.Subscribe(t, b, b.Call("default", call.Tool))
	answer := make(chan answered, 1)
	go func() {
		event, err := rpc.Submit(ctx, b, "default", call)
		answer <- answered{event, err}
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

// The stream refuses a second result, but the server hands it to everybody who
// listens to the subject all the same.
func TestSubmitReturnsTheFirstResultNotTheOneItHeard(t *testing.T) {
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	subject := b.Result("s1", "c1")
	answer := submit(t, b, call)
	if _, err := b.JetStream().Publish(t.Context(), subject, result(t, call, "refused"), jetstream.WithExpectLastSequence(99)); err == nil {
		t.Fatal("the stream took a result that it should refuse")
	}
	if _, err := b.JetStream().Publish(t.Context(), subject, result(t, call, "first")); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	if got.err != nil || got.event.ForLLM != "first" {
		t.Errorf("Submit = %q, %v; want the first result", got.event.ForLLM, got.err)
	}
}

// A call that was answered is not sent again: after its window for duplicates
// the stream would take it, and a worker would run it.
func TestSubmitAgainReachesNoWorker(t *testing.T) {
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	if _, err := b.JetStream().Publish(t.Context(), b.Result("s1", "c1"), result(t, call, "first")); err != nil {
		t.Fatal(err)
	}
	sent := bustest.Subscribe(t, b, "stevedore.call.>")
	got, err := rpc.Submit(t.Context(), b, "default", call)
	if err != nil || got.ForLLM != "first" {
		t.Errorf("Submit = %q, %v", got.ForLLM, err)
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := sent.Pending(); n != 0 || err != nil {
		t.Errorf("%d calls were sent, %v", n, err)
	}
}

func TestSubmitHearsOfADeadLetter(t *testing.T) {
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	answer := submit(t, b, call)
	letter := `{"id":"s1.c1.` + call.Digest() + `","code":"undecodable","reason":"it was no use"}`
	if err := b.Conn().Publish(b.Dead(bus.DeadCall, "echo"), []byte(letter)); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	dead, ok := errors.AsType[*rpc.DeadLetterError](got.err)
	if !ok || dead.Code != "undecodable" || !strings.Contains(dead.Error(), "it was no use") {
		t.Errorf("Submit = %v; want the dead letter", got.err)
	}
}

func TestSubmitRefusesAnIDOfAnotherCall(t *testing.T) {
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

func TestSubmitSaysHowMuchIsTooMuch(t *testing.T) {
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo", Args: []byte(`{"text":"` + strings.Repeat("x", 2<<20) + `"}`)}
	_, err := rpc.Submit(t.Context(), b, "default", call)
	if got := tools.CodeOf(err); got != tools.CodeInvalidCall || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("Submit = %v (%s); want %s with the limit", err, got, tools.CodeInvalidCall)
	}
	info, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
	if err != nil {
		t.Fatal(err)
	}
	if n := info.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d calls were stored, want none", n)
	}
}

// What a stranger publishes on the subject without the stream taking it is no
// answer.
func TestSubmitIgnoresWhatTheStreamDoesNotKeep(t *testing.T) {
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

// A call that was never stored is not said to go on, however the attempt ended;
// one that was is.
func TestSubmitSaysWhetherTheCallIsAccepted(t *testing.T) {
	s := bustest.Server(t)
	b := bustest.Connect(t, s, bus.Config{Timeout: 200 * time.Millisecond})
	call := tools.Call{ID: "a", Session: "s", Tool: "x"}
	submit := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := rpc.Submit(ctx, b, "default", call)
		return err
	}
	if err := submit(500 * time.Millisecond); !errors.Is(err, rpc.ErrPending) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v, want ErrPending", err)
	}
	subscriptions := b.Conn().NumSubscriptions()
	if err := submit(0); err == nil || errors.Is(err, rpc.ErrPending) {
		t.Errorf("the wait was over before it began: %v", err)
	}
	s.Close()
	if err := submit(time.Second); err == nil || errors.Is(err, rpc.ErrPending) || !strings.Contains(err.Error(), "not published") {
		t.Errorf("no server: %v", err)
	}
	if n := b.Conn().NumSubscriptions(); n != subscriptions {
		t.Errorf("%d subscriptions, %d before", n, subscriptions)
	}
}

// What is wrong with a call is said of the call, before anything waits for it.
func TestCallsThatNameTooLittle(t *testing.T) {
	b := bustest.New(t)
	for _, test := range []struct{ name, err, want string }{
		{"submit a tool with a space", errOf(rpc.Submit(t.Context(), b, "default", tools.Call{Tool: "x y"})), `invalid tool "x y" or queue "default"`},
		{"submit to a queue with a dot", errOf(rpc.Submit(t.Context(), b, "a.", tools.Call{Tool: "x"})), `invalid tool "x" or queue "a."`},
		{"submit nothing", errOf(rpc.Submit(t.Context(), b, "default", tools.Call{})), "names no tool"},
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
	accepted := bustest.Subscribe(t, b, b.Call(bus.DefaultQueue, "echo"))
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
