package mcp

import (
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A client is not told that no worker takes its call while workers stand still: one of them may run it.
func TestPendingCallOfASilentWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		c := &client{gateway: New(b, Config{}), session: "s"}
		call := tools.Call{ID: "c", Session: "s", Tool: "x"}
		text := func() string {
			return c.pending(t.Context(), call, "q").Content[0].(*sdk.TextContent).Text
		}
		if got := text(); !strings.HasPrefix(got, "The call waits, because no worker takes calls") {
			t.Errorf("without workers: %s", got)
		}
		const taken = "The call waits, or a worker that does not answer now has it. Its id is c."
		if _, err := rpc.Enqueue(t.Context(), b, "q", call); err != nil {
			t.Fatal(err)
		}
		if got := text(); !strings.HasPrefix(got, "The call waits, because no worker takes calls") {
			t.Errorf("without workers, of a call in the queue: %s", got)
		}
		silent := bustest.Subscribe(t, b, b.RPC("offer"))
		if got := text(); !strings.HasPrefix(got, taken) {
			t.Errorf("with a silent worker: %s", got)
		}
		if err := silent.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		cons, err := b.Consumer(t.Context(), b.WorkerConsumer("q"))
		if err == nil {
			_, err = cons.Next()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := text(); !strings.HasPrefix(got, taken) {
			t.Errorf("a worker took the call: %s", got)
		}
		fields, err := c.getTask(t.Context(), "c", false)
		if err != nil || !strings.HasPrefix(fields.StatusMessage, "queued: no worker said within 2s that it runs it") {
			t.Errorf("the task: %+v, %v", fields, err)
		}
	})
}

// A client that cancels a task again, because the first attempt failed, cancels what that one left.
func TestCancelTaskAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := &client{gateway: New(b, Config{}), session: "s"}
	made := tools.CallKey{Session: "s", ID: "made"}
	for _, p := range []task.Parked{{Call: tools.Call{ID: "made"}}, {Call: tools.Call{ID: "c"}, WaitsFor: []tools.CallKey{made}, Made: true}} {
		p.Call.Session, p.Call.Tool, p.Queue, p.State = "s", "x", "q", task.Waiting
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	body, err := bus.Encode(tools.NewResultEvent(tools.Call{ID: "c", Session: "s", Tool: "x"}, tools.Failure(tools.Errorf(tools.CodeCancelled, "cancelled"))))
	if err == nil {
		_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: body})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cancelTask(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", "made"); err != nil || got.State != task.Cancelled {
		t.Errorf("the call that it made is %s, %v", got.State, err)
	}
}

// A client that cancels its call while the bus is away does so once: the gateway goes on to cancel it.
func TestCancelIsRepeated(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		call := tools.Call{ID: "c", Session: "s", Tool: "x"}
		_, err := rpc.Enqueue(t.Context(), b, "q", call)
		kv, bucketErr := b.Bucket(t.Context(), bus.TasksBucket)
		if err == nil && bucketErr == nil {
			_, err = kv.PutString(t.Context(), "call.s.c", "cannot be read")
		}
		if err != nil || bucketErr != nil {
			t.Fatal(err, bucketErr)
		}
		g := New(b, Config{})
		(&client{gateway: g, session: "s"}).cancelled(call)
		time.Sleep(time.Minute)
		if _, err := kv.PutString(t.Context(), "call.s.c", "{}"); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "the cancellation", func() bool {
			r, err := task.ReadRecord(t.Context(), b, tools.CallKey{Session: "s", ID: "c"})
			return err == nil && !r.Cancelled.IsZero()
		})
	})
}

// An agent that waits for two approvals goes on when one of them is given, and waits again for the other one. An answer to that one
// in between is not dropped: nobody would ask again.
func TestAnswerWhileTheAgentGoesOn(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := &client{gateway: New(b, Config{}), session: "s"}
	asks, sub := tools.CallKey{Session: "sub", ID: "asks"}, tools.CallKey{Session: "s", ID: "sub"}
	for _, p := range []task.Parked{
		{Call: tools.Call{ID: "asks", Session: "sub"}, State: task.InputRequired},
		{Call: tools.Call{ID: "sub", Session: "s"}, State: task.Waiting, WaitsFor: []tools.CallKey{asks}, Made: true},
		{Call: tools.Call{ID: "c", Session: "s"}, State: task.Waiting, WaitsFor: []tools.CallKey{sub}, Made: true},
	} {
		p.Call.Tool, p.Queue, p.Until = "x", "q", time.Now().Add(time.Hour)
		var err error
		if p.Number, err = task.Park(t.Context(), b, p); err == nil && p.State == task.Waiting {
			err = task.Resume(t.Context(), b, p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	form := &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
	if err := c.answer(t.Context(), "c", sdk.InputResponseMap{"sub.asks": form}); err != nil {
		t.Fatal(err)
	}
	if r, err := task.ReadRecord(t.Context(), b, asks); err != nil || r.Answer == nil || !r.Answer.Approve {
		t.Errorf("the answer is %+v, %v", r.Answer, err)
	}
}
