package rpc_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// A call that is submitted again after the stream has forgotten its key is not stored
// twice if it is queued or running. A parent agent that another worker resumed does
// this. A call that is gone and has no result is stored again.
func TestSubmitAfterTheKeyIsForgotten(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		queued := func() int { return bustest.Waiting(t, b) }
		submit := func(call tools.Call, timeout time.Duration) (tools.ResultEvent, error) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
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
		if _, err := submit(call, time.Second); err == nil || queued() != 3 {
			t.Errorf("%d calls are queued (%v), want 3", queued(), err)
		}
		stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := submit(call, time.Second); err == nil || queued() != 1 {
			t.Errorf("%d calls are queued (%v), want 1", queued(), err)
		}
		time.Sleep(11 * time.Minute)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s1", "c1"), Body: result(t, call, "done")}); err != nil {
			t.Fatal(err)
		}
		if event, err := submit(call, time.Minute); err != nil || event.ForLLM != "done" || queued() != 1 {
			t.Errorf("%d calls are queued (%v), the result is %q", queued(), err, event.ForLLM)
		}
	})
}

// A call that a stopping worker requeued is a new message with another key. The call
// is not stored twice after the stream has forgotten its own key.
func TestSubmitAfterARequeue(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
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
		err := consume.Run(ctx, b, b.WorkerConsumer("default"), consume.Config{Grace: time.Second}, func(ctx context.Context, d *consume.Delivery) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		submit()
		if n := bustest.Waiting(t, b); n != 1 {
			t.Errorf("%d calls are queued, want the requeued one", n)
		}
	})
}

// Another call with the id of a parked one becomes a dead letter. A client that waits for the parked call goes on waiting.
func TestSubmitBesideAnotherCallWithItsID(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		echo, err := tools.NewTool("echo", "", func(context.Context, tools.Call, struct {
			Text string `json:"text"`
		}) *tools.Result {
			return tools.NewToolResult("done")
		})
		if err != nil {
			t.Fatal(err)
		}
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Approvals: approvals.Rules{Needed: func(tools.Call) bool { return true }}}, echo)
		call := tools.Call{ID: "c", Session: "s", Tool: "echo", Args: json.RawMessage(`{"text":"a"}`)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if event, err := rpc.Submit(t.Context(), b, "default", call); err != nil || event.ForLLM != "done" {
				t.Errorf("the call ended with %q, %v", event.ForLLM, err)
			}
		}()
		key := tools.CallKey{Session: "s", ID: "c"}
		bustest.WaitUntil(t, "the question", func() bool {
			_, parked, err := task.ReadParked(t.Context(), b, key)
			return err == nil && parked && bustest.Messages(t, b, bus.Calls) == 0
		})
		other := call
		other.Args = json.RawMessage(`{"text":"b"}`)
		if _, err := rpc.Submit(t.Context(), b, "default", other); tools.CodeOf(err) != tools.CodeMismatch {
			t.Errorf("the other call: %v", err)
		}
		if _, err := approvals.Answer(t.Context(), b, key, task.Answer{Approve: true}); err != nil {
			t.Error(err)
		}
		<-done
	})
}
