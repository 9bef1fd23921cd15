package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// backgroundTool works in the background until it is cancelled or gets a signal.
type backgroundTool struct {
	tools.Tool
	finish chan struct{}
}

func (b backgroundTool) ExecuteAsync(ctx context.Context, call tools.Call, callback tools.AsyncCallback) *tools.Result {
	go func() {
		select {
		case <-b.finish:
			callback(ctx, tools.NewToolResult("the job's result"))
		case <-ctx.Done():
			callback(ctx, tools.Failure(context.Cause(ctx)))
		}
	}()
	return tools.AsyncResult("")
}

// The tasks tool lists, gets and cancels the background tasks of its session and no others.
func TestTasksTool(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	plain, err := tools.NewTool("job", "works in the background", func(context.Context, tools.Call, struct{}) *tools.Result { return nil })
	if err != nil {
		t.Fatal(err)
	}
	job := backgroundTool{plain.WithEffect(tools.Keyed), make(chan struct{})}
	manage := builtin.NewTasks(Tasks{b})
	workertest.Start(t, b, workertest.Plain{}, worker.Config{}, job, manage)
	n := 0
	do := func(session, args string) tools.ResultEvent {
		t.Helper()
		n++
		event, err := rpc.Submit(t.Context(), b, bus.DefaultQueue, tools.Call{ID: fmt.Sprint("manage", n), Session: session, Tool: "tasks", Args: json.RawMessage(args)})
		if err != nil || !event.Silent {
			t.Fatalf("%s: %+v, %v", args, event, err)
		}
		return event
	}
	if event := do("s", `{"action":"list"}`); event.ForLLM != "This conversation has no background tasks." {
		t.Errorf("%+v", event)
	}
	for _, call := range []tools.Call{{ID: "j1", Session: "s"}, {ID: "j2", Session: "s"}, {ID: "j3", Session: "other"}} {
		call.Tool = "job"
		if _, err := rpc.Submit(t.Context(), b, bus.DefaultQueue, call); err != nil {
			t.Fatal(err)
		}
	}
	if text := do("s", `{"action":"list"}`).ForLLM; strings.Count(text, "running  job") != 2 || strings.Contains(text, "j3") || strings.Contains(text, "manage") {
		t.Errorf("the list: %s", text)
	}
	if text := do("s", `{"action":"cancel","id":"j1"}`).ForLLM; !strings.Contains(text, "j1  cancelled") {
		t.Errorf("cancelled: %s", text)
	}
	if text := do("s", `{"action":"cancel","id":"j1"}`).ForLLM; !strings.Contains(text, "j1  cancelled") {
		t.Errorf("cancelled again: %s", text)
	}
	close(job.finish)
	bustest.WaitUntil(t, "the end of the job", func() bool {
		got, err := task.Get(t.Context(), b, "s", "j2")
		return err == nil && got.State == task.Completed
	})
	if text := do("s", `{"action":"get","id":"j2"}`).ForLLM; !strings.Contains(text, "completed") || !strings.HasSuffix(text, "Result:\nthe job's result") {
		t.Errorf("got: %s", text)
	}
	for i := range 501 { // one more than a list has
		id := fmt.Sprint("old", i)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("long", id), Body: fmt.Appendf(nil, `{"id":%q,"session":"long","tool":"job","outcome":"async"}`, id)}); err != nil {
			t.Fatal(err)
		}
	}
	if text := do("long", `{"action":"list"}`).ForLLM; !strings.Contains(text, "other tasks may be missing") {
		t.Errorf("the list does not say that it is incomplete: %.200s", text)
	}
	for args, code := range map[string]string{
		`{"action":"get","id":"j3"}`:           tools.CodeNotFound, // of another session
		`{"action":"cancel","id":"j2"}`:        tools.CodeInvalidArguments,
		`{"action":"cancel","id":"nothing.*"}`: tools.CodeNotFound,
		`{"action":"get"}`:                     tools.CodeInvalidArguments,
		`{"action":"stop","id":"j2"}`:          tools.CodeInvalidArguments,
	} {
		if event := do("s", args); event.Error == nil || event.Error.Code != code {
			t.Errorf("%s: %+v %v", args, event, event.Error)
		}
	}
}

// If an attempt to cancel a task failed when its result was stored, the next one cancels the calls that the task made.
func TestTasksToolCancelsAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	made := tools.CallKey{Session: "s", ID: "made"}
	for _, p := range []task.Parked{
		{Call: tools.Call{ID: "made"}, State: task.InputRequired},
		{Call: tools.Call{ID: "job"}, State: task.InputRequired, WaitsFor: []tools.CallKey{made}, Made: true},
	} {
		p.Call.Session, p.Call.Tool, p.Queue, p.Until = "s", "x", bus.DefaultQueue, time.Now().Add(time.Hour)
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	body, err := bus.Encode(tools.NewResultEvent(tools.Call{ID: "job", Session: "s", Tool: "x"}, tools.Failure(tools.Errorf(tools.CodeCancelled, "cancelled"))))
	if err == nil {
		_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "job"), Body: body})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Tasks{b}).Cancel(t.Context(), "s", "job"); err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", "made"); err != nil || got.State != task.Cancelled {
		t.Errorf("the call that the task made is %s, %v", got.State, err)
	}
}
