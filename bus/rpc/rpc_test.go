package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// parts are what a client finds on a bus: a worker and the service.
type parts struct {
	bus     *bus.Bus
	blocked chan struct{} // receives when a call of block runs
}

func start(t *testing.T) parts {
	t.Helper()
	p := parts{bus: bustest.New(t), blocked: make(chan struct{}, 10)}
	registry := tools.NewRegistry(zerolog.Nop())
	big, err := tools.NewTool("big", "prints lines", func(context.Context, tools.Call, struct{}) *tools.Result {
		return tools.NewToolResult(strings.Repeat("one line of many\n", 10_000))
	})
	if err != nil {
		t.Fatal(err)
	}
	block, err := tools.NewTool("block", "waits for its end", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result {
		tools.ReportProgress(ctx, tools.Progress{Message: "waiting", Done: 1, Total: 4})
		p.blocked <- struct{}{}
		<-ctx.Done()
		return tools.ErrorResult("stopped")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Register(big.WithEffect(tools.Idempotent), block, background{p.blocked}); err != nil {
		t.Fatal(err)
	}
	store := mem.New(offload.StoreConfig{})
	w := worker.New(p.bus, registry, offload.NewOffloader(store, offload.Config{}), worker.Config{Grace: time.Second, Log: bustest.Log(t)})
	s := rpc.NewService(p.bus, offload.NewReader(store, offload.ReaderConfig{}), rpc.ServiceConfig{Log: bustest.Log(t)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- w.Run(ctx) }()
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	p.await(t)
	return p
}

// await returns when the service answers.
func (p parts) await(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := rpc.Request(t.Context(), p.bus, p.bus.RPC("task", "nobody", "list"), struct{}{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// background is an async tool that ends when its context does.
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
	// Again: the same result, at once.
	again, err := rpc.Submit(t.Context(), p.bus, "default", tools.Call{ID: "b1", Session: "s", Tool: "big"})
	if err != nil || !again.StartedAt.Equal(event.StartedAt) {
		t.Errorf("again %.300v, %v", again, err)
	}
	// Under another call: refused.
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

	// Another session does not see it.
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

// A call is cancelled wherever it stands, and its late result loses.
func TestCancel(t *testing.T) {
	p := start(t)
	ctx := t.Context()
	for _, c := range []struct{ tool, id string }{{"block", "sync"}, {"background", "async"}} {
		t.Run(c.id, func(t *testing.T) {
			answer := make(chan tools.ResultEvent, 1)
			call := tools.Call{ID: c.id, Session: "s", Tool: c.tool}
			go func() {
				e, err := rpc.Submit(ctx, p.bus, "default", call)
				if err != nil {
					t.Error(err)
				}
				answer <- e
			}()
			<-p.blocked
			if c.tool == "background" {
				if e := <-answer; e.Outcome != tools.Async {
					t.Fatalf("first answer %+v", e)
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
				last = <-answer
			}
			if err != nil || last.Outcome != tools.Cancelled {
				t.Errorf("answer %+v, %v", last, err)
			}
			if _, err := rpc.CancelTask(ctx, p.bus, "s", c.id, "the test"); err == nil {
				t.Error("cancelled twice")
			}
		})
	}
}

// A call that waits for a worker is queued; cancelled there, it never runs.
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

	registry := tools.NewRegistry(zerolog.Nop())
	ran := make(chan struct{}, 1)
	block, err := tools.NewTool("block", "must not run", func(context.Context, tools.Call, struct{}) *tools.Result {
		ran <- struct{}{}
		return tools.NewToolResult("ran")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Register(block.WithEffect(tools.Idempotent)); err != nil {
		t.Fatal(err)
	}
	w := worker.New(p.bus, registry, offload.NewOffloader(mem.New(offload.StoreConfig{}), offload.Config{}), worker.Config{Queues: []string{"later"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			s, err := p.bus.JetStream().Stream(ctx, p.bus.StreamName(bus.Calls))
			if err == nil && s.CachedInfo().State.Msgs == 0 {
				return
			}
		}
	}()
	if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
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
