package rpc_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// parts is a bus with a worker and the service.
type parts struct {
	bus     *bus.Bus
	blocked chan struct{} // receives when the tool block runs
}

func start(t *testing.T) parts {
	t.Helper()
	p := parts{bus: bustest.New(t), blocked: make(chan struct{}, 10)}
	big := newTool(t, "big", func(context.Context) *tools.Result {
		return tools.NewToolResult(strings.Repeat("one line of many\n", 10_000))
	})
	block := newTool(t, "block", func(ctx context.Context) *tools.Result {
		tools.ReportProgress(ctx, tools.Progress{Message: "waiting", Done: 1, Total: 4})
		p.blocked <- struct{}{}
		<-ctx.Done()
		return tools.ErrorResult("stopped")
	})
	store := mem.New(offload.StoreConfig{})
	serve(t, p.bus, store)
	workertest.Start(t, p.bus, offload.NewOffloader(store, offload.Config{}), worker.Config{Grace: time.Second}, big, block, background{p.blocked})
	return p
}

// newTool returns an idempotent tool without arguments.
func newTool(t *testing.T, name string, run func(context.Context) *tools.Result) tools.Tool {
	t.Helper()
	tool, err := tools.NewTool(name, "runs a function of the test", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result { return run(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	return tool.WithEffect(tools.Idempotent)
}

// serve starts the service and returns when it is ready.
func serve(t *testing.T, b *bus.Bus, store offload.Store) {
	t.Helper()
	ready := make(chan struct{})
	bustest.Run(t, rpc.NewService(b, offload.NewReader(store, offload.ReaderConfig{}), rpc.ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)}).Run)
	<-ready
}

func memOffloader() worker.Offloader {
	return offload.NewOffloader(mem.New(offload.StoreConfig{}), offload.Config{})
}

// background is an async tool that runs until its context ends.
type background struct{ started chan struct{} }

func (background) Definition() tools.Definition {
	return tools.Definition{Name: "background", Description: "waits", Effect: tools.Idempotent}
}
func (background) Execute(context.Context, tools.Call) *tools.Result {
	return tools.ErrorResult("not async")
}
func (b background) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go func() {
		b.started <- struct{}{}
		<-ctx.Done()
		callback(ctx, tools.ErrorResult("stopped half way"))
	}()
	return tools.AsyncResult("Task started in background")
}

func TestSubmitOffloadsAndReads(t *testing.T) {
	p := start(t)
	event, err := rpc.Submit(t.Context(), p.bus, "default", tools.Call{ID: "b1", Session: "s", Tool: "big"})
	if err != nil || event.Artifact == nil || len(event.ForLLM) > 3000 {
		t.Fatalf("result %.300v, %v", event, err)
	}
	// The same call again gets the same result.
	again, err := rpc.Submit(t.Context(), p.bus, "default", tools.Call{ID: "b1", Session: "s", Tool: "big"})
	if err != nil || !again.StartedAt.Equal(event.StartedAt) {
		t.Errorf("again %.300v, %v", again, err)
	}
	// Another call with this id is rejected.
	_, err = rpc.Submit(t.Context(), p.bus, "default", tools.Call{ID: "b1", Session: "s", Tool: "big", Args: json.RawMessage(`{"x":1}`)})
	if tools.CodeOf(err) != tools.CodeMismatch {
		t.Errorf("mismatch: %v", err)
	}

	in := rpc.ReadRequest{ArtifactID: "b1", StartLine: 5000, EndLine: 5001}
	body, err := rpc.Request(t.Context(), p.bus, "stevedore.rpc.artifact.s.lines", in)
	if err != nil {
		t.Fatal(err)
	}
	var lines struct {
		Text    string `json:"text"`
		Content string `json:"content"`
	}
	if err := json.Unmarshal(body, &lines); err != nil {
		t.Fatal(err)
	}
	want := "Lines 5000-5001 of 10001 (knowledge_id: b1):\n\none line of many\none line of many"
	if lines.Text != want || lines.Content != "one line of many\none line of many" {
		t.Errorf("lines %q", lines.Text)
	}

	// Another session cannot read it.
	_, err = rpc.Request(t.Context(), p.bus, "stevedore.rpc.artifact.other.lines", in)
	if tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("other session: %v", err)
	}
}

func TestCallEndpoint(t *testing.T) {
	p := start(t)
	body, err := rpc.Request(t.Context(), p.bus, "stevedore.rpc.call.default.big", tools.Call{ID: "c", Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := tools.DecodeResult(body); err != nil || e.ID != "c" || e.Outcome != tools.Completed {
		t.Errorf("%.300s, %v", body, err)
	}
	_, err = rpc.Request(t.Context(), p.bus, "stevedore.rpc.call.default.big", tools.Call{ID: "c2", Tool: "shell"})
	if tools.CodeOf(err) != tools.CodeInvalidCall {
		t.Errorf("other tool: %v", err)
	}
	for _, function := range []string{"nosuch", "lines"} {
		_, err = rpc.Request(t.Context(), p.bus, "stevedore.rpc.artifact.s."+function, struct{}{})
		if code := tools.CodeOf(err); code != tools.CodeInvalidArguments && code != tools.CodeNotFound {
			t.Errorf("%s: %v", function, err)
		}
	}
	msg, err := p.bus.Conn().Request("stevedore.rpc.artifact.s.lines", []byte("{not json"), 5*time.Second)
	if err != nil || msg.Header.Get("Nats-Service-Error-Code") != tools.CodeInvalidArguments || !strings.Contains(string(msg.Data), `"error"`) {
		t.Errorf("%v %s", err, msg.Data)
	}
}

func task(t *testing.T, p parts, id string, want rpc.TaskState) rpc.Task {
	t.Helper()
	got, err := rpc.GetTask(t.Context(), p.bus, "s", id)
	if err != nil || got.State != want {
		t.Fatalf("task %+v, %v, want %s", got, err, want)
	}
	return got
}

// A running call can be cancelled, and a later result loses.
func TestCancel(t *testing.T) {
	p := start(t)
	ctx := t.Context()
	for _, c := range []struct{ tool, id string }{{"block", "sync"}, {"background", "async"}} {
		t.Run(c.id, func(t *testing.T) {
			results := make(chan tools.ResultEvent, 1)
			call := tools.Call{ID: c.id, Session: "s", Tool: c.tool}
			go func() {
				e, err := rpc.Submit(ctx, p.bus, "default", call)
				if err != nil {
					t.Error(err)
				}
				results <- e
			}()
			<-p.blocked
			if c.tool == "background" {
				if e := <-results; e.Outcome != tools.Async {
					t.Fatalf("result %+v", e)
				}
			}
			got := task(t, p, c.id, rpc.Running)
			if c.tool == "block" && got.Progress.Message != "waiting" {
				t.Errorf("progress %+v", got.Progress)
			}
			list, err := rpc.ListTasks(ctx, p.bus, "s")
			if err != nil || !strings.Contains(list.Text(), c.id+"  running") {
				t.Errorf("list %s, %v", list.Text(), err)
			}
			got, err = rpc.CancelTask(ctx, p.bus, "s", c.id, "the test")
			if err != nil || got.State != rpc.Cancelled {
				t.Fatalf("cancel %+v, %v", got, err)
			}
			last := tools.ResultEvent{}
			if c.tool == "background" {
				last, err = rpc.AwaitCompletion(ctx, p.bus, call)
			} else {
				last = <-results
			}
			if err != nil || last.Outcome != tools.Cancelled {
				t.Errorf("final result %+v, %v", last, err)
			}
			if _, err := rpc.CancelTask(ctx, p.bus, "s", c.id, "the test"); err == nil {
				t.Error("a call was cancelled twice")
			}
		})
	}
}

// A queued call that is cancelled never runs.
func TestCancelWhileQueued(t *testing.T) {
	p := start(t)
	body := []byte(`{"id":"q","session":"s"}`)
	if _, err := p.bus.Publish(t.Context(), bus.Message{Subject: "stevedore.call.later.block", Body: body, Key: "q"}); err != nil {
		t.Fatal(err)
	}
	if got := task(t, p, "q", rpc.Queued); got.Tool != "block" {
		t.Errorf("task %+v", got)
	}
	if _, err := rpc.CancelTask(t.Context(), p.bus, "s", "q", "the test"); err != nil {
		t.Fatal(err)
	}
	task(t, p, "q", rpc.Cancelled)

	ran := make(chan struct{}, 1)
	block := newTool(t, "block", func(context.Context) *tools.Result {
		ran <- struct{}{}
		return tools.NewToolResult("ran")
	})
	workertest.Start(t, p.bus, memOffloader(), worker.Config{Queues: []string{"later"}}, block)
	bustest.WaitUntil(t, "the call to be acknowledged", func() bool { return bustest.Messages(t, p.bus, bus.Calls) == 0 })
	if len(ran) > 0 {
		t.Error("a cancelled call was run")
	}
	task(t, p, "q", rpc.Cancelled)
}

func TestUnknownTask(t *testing.T) {
	p := start(t)
	if _, err := rpc.GetTask(t.Context(), p.bus, "s", "nosuch"); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("got %v", err)
	}
}
