package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
)

type echoArgs struct {
	Text string `json:"text"`
}

// echo counts its runs.
func echo(t *testing.T, name string, effect tools.Effect, runs *atomic.Int64, during func()) tools.Tool {
	t.Helper()
	tool, err := tools.NewTool(name, "echoes", func(_ context.Context, _ tools.Call, in echoArgs) *tools.Result {
		runs.Add(1)
		if during != nil {
			during()
		}
		return tools.UserResult(in.Text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return tool.WithEffect(effect)
}

// start runs a worker until the test ends or stop is called.
func start(t *testing.T, b *bus.Bus, cfg worker.Config, toolset ...tools.Tool) (stop func()) {
	t.Helper()
	return workertest.Start(t, b, workertest.Plain{}, cfg, toolset...)
}

// submit publishes a call as any client would.
func submit(t *testing.T, b *bus.Bus, subject, body string) {
	t.Helper()
	if tokens := b.Split(subject); len(tokens) == 3 && (tokens[0] == "call" || tokens[0] == "raw") { // as short returns it
		session, id := named([]byte(body))
		subject += "." + session + "." + id
	}
	if _, err := b.JetStream().Publish(t.Context(), subject, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// named returns the tokens of the session and the id in a body. Without an id, each call is
// another one.
func named(body []byte) (session, id string) {
	var call tools.Call
	_ = json.Unmarshal(body, &call) // it may be no JSON on purpose
	return call.SessionToken(), tools.Token(cmp.Or(call.ID, nuid.Next()))
}

// short is the beginning of the subject of a call; submit adds the ids of the body.
func short(queue, tool string) string { return "stevedore.call." + queue + "." + tool }

func TestCallBecomesResult(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	start(t, b, worker.Config{Name: "w1"}, echo(t, "echo", tools.Idempotent, &runs, nil))
	results := bustest.Subscribe(t, b, "stevedore.result.s1.>")
	submit(t, b, "stevedore.call.default.echo", `{"id":"toolu_1","session":"s1","args":{"text":"<hi> & ü"}}`)

	got, msg := bustest.Next[tools.ResultEvent](t, results)
	if msg.Subject != "stevedore.result.s1.toolu_1" {
		t.Errorf("subject %s", msg.Subject)
	}
	if got.Outcome != tools.Completed || got.ForLLM != "<hi> & ü" || got.ForUser != got.ForLLM || got.IsError || got.Attempt != 1 || got.Worker != "w1" {
		t.Errorf("result %+v", got)
	}
	if !strings.Contains(string(msg.Data), "<hi> & ü") {
		t.Errorf("the text is escaped: %s", msg.Data)
	}
	if v := msg.Header.Get("ce-specversion"); v != "1.0" {
		t.Errorf("ce-specversion %q", v)
	}
}

// An invalid call gets an error result. A call that cannot be decoded becomes a
// dead letter. The worker continues.
func TestBadCalls(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil))
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")

		long := strings.Repeat("x", 5000)
		for name, c := range map[string]struct{ subject, body, outcome, code string }{
			"unknown tool":    {"call.default.nosuch", `{"id":"a"}`, "failed", tools.CodeUnknownTool},
			"bad arguments":   {"call.default.echo", `{"id":"b","args":{"text":7}}`, "failed", tools.CodeInvalidArguments},
			"no arguments":    {"call.default.echo", `{"id":"c"}`, "failed", tools.CodeInvalidArguments},
			"array":           {"call.default.echo", `{"id":"d","args":[1]}`, "failed", tools.CodeInvalidArguments},
			"other tool":      {"call.default.echo", `{"id":"e","tool":"shell","args":{"text":"x"}}`, "failed", tools.CodeInvalidCall},
			"huge id":         {"call.default.echo", `{"id":"` + strings.Repeat("y", 20000) + `","args":{"text":"x"}}`, "failed", tools.CodeInvalidCall},
			"wildcard id":     {"call.default.echo", `{"id":"*.>","session":"a.b","args":{"text":"x"}}`, "completed", ""},
			"5000 byte id":    {"call.default.echo", `{"id":"` + long + `","args":{"text":"x"}}`, "completed", ""},
			"missing id":      {"call.default.echo", `{"args":{"text":"x"}}`, "completed", ""},
			"bad deadline":    {"call.default.echo", `{"id":"g","args":{"text":"x"},"deadline":"tomorrow"}`, "failed", tools.CodeInvalidCall},
			"bad channel":     {"call.default.echo", `{"session":"s","args":{"text":"x"},"channel":{}}`, "failed", tools.CodeInvalidCall},
			"bad priority":    {"call.default.echo", `{"id":"k","args":{"text":"x"},"priority":"urgent"}`, "failed", tools.CodeInvalidCall},
			"field twice":     {"call.default.echo", `{"id":"h","args":{"text":"x"},"ARGS":{}}`, "failed", tools.CodeInvalidCall},
			"argument twice":  {"call.default.echo", `{"id":"i","args":{"text":"x","text":"y"}}`, "failed", tools.CodeInvalidArguments},
			"bad raw text":    {"raw.default.echo", `{"id":"j","for_llm":5}`, "failed", tools.CodeInvalidCall},
			"deadline passed": {"call.default.echo", `{"id":"f","deadline":"1999-01-01T00:00:00Z","args":{"text":"x"}}`, "timeout", tools.CodeTimeout},
		} {
			submit(t, b, "stevedore."+c.subject, c.body)
			got, msg := bustest.Next[tools.ResultEvent](t, results)
			if string(got.Outcome) != c.outcome {
				t.Errorf("%s: outcome %s, want %s: %s", name, got.Outcome, c.outcome, tools.Excerpt(string(msg.Data), 500))
			}
			if err := bus.CheckSubject(msg.Subject); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if c.code != "" && (got.Error == nil || got.Error.Code != c.code || got.ForLLM == "") {
				t.Errorf("%s: error %+v, want code %s", name, got.Error, c.code)
			}
		}
		for name, c := range map[string]struct{ subject, body string }{
			"not JSON":    {"call.default.echo", `{"id":`},
			"not object":  {"call.default.echo", `[1,2]`},
			"empty":       {"call.default.echo", ``},
			"not UTF-8":   {"call.default.echo", "{\"id\":\"\xff\"}"},
			"bad id":      {"call.default.echo", `{"id":7,"args":{"text":"x"}}`},
			"bad session": {"call.default.echo", `{"id":"a2","session":["s"],"deadline":"tomorrow"}`},
			"two ids":     {"call.default.echo", `{"id":"a3","ID":"a4"}`},
			"bad raw":     {"raw.default.echo", `nope`},
		} {
			submit(t, b, "stevedore."+c.subject, c.body)
			got, _ := bustest.Next[dead.Letter](t, letters)
			if got.Code != "undecodable" || got.Reason == "" || !strings.HasPrefix(got.Subject, "stevedore."+c.subject+".default.") {
				t.Errorf("%s: dead letter %+v", name, got)
			}
			if body, err := got.Message(t.Context(), b); err != nil || string(body) != c.body {
				t.Errorf("%s: body %q, %v", name, body, err)
			}
		}
	})
}

// A call that is published again after its result is not run again.
func TestFinishedCallIsNotRunAgain(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		start(t, b, worker.Config{}, echo(t, "once", tools.Once, &runs, nil))
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		submit(t, b, "stevedore.call.default.once", `{"id":"a","args":{"text":"x"}}`)
		bustest.Next[tools.ResultEvent](t, results)

		// A client whose acknowledgement was lost publishes the call again.
		waitEmpty(t, b)
		submit(t, b, "stevedore.call.default.once", `{"id":"a","args":{ "text":"x"}}`)
		waitEmpty(t, b)
		if n := runs.Load(); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

// Another call with a used id must not get the result of the first call.
func TestMismatch(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil), echo(t, "once", tools.Once, &runs, nil))
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")
		for _, tool := range []string{"echo", "once"} {
			submit(t, b, "stevedore.call.default."+tool, `{"id":"`+tool+`","args":{"text":"x"}}`)
			bustest.Next[tools.ResultEvent](t, results)
			waitEmpty(t, b)
			submit(t, b, "stevedore.call.default."+tool, `{"id":"`+tool+`","args":{"text":"y"}}`)
			if got, _ := bustest.Next[dead.Letter](t, letters); got.Code != tools.CodeMismatch {
				t.Errorf("dead letter %+v", got)
			}
		}
	})
}

// A claimed call whose worker has stopped ends with the outcome unknown, and its
// tool is not run.
func TestClaimOfStoppedWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		submit(t, b, "stevedore.claim.default.gone", `{"worker":"dead","nonce":"n"}`)
		start(t, b, worker.Config{}, echo(t, "once", tools.Once, &runs, nil))
		submit(t, b, "stevedore.call.default.once", `{"id":"gone","args":{"text":"x"}}`)
		got, _ := bustest.Next[tools.ResultEvent](t, results)
		if got.Outcome != tools.Unknown || !got.IsError || got.ForUser == "" || runs.Load() != 0 {
			t.Errorf("result %+v after %d runs", got, runs.Load())
		}
	})
}

// Two messages of one call, in two queues, lead to one run, and both are acknowledged.
func TestDuplicateOfRunningCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		entered, release := make(chan struct{}, 2), make(chan struct{})
		tool := echo(t, "once", tools.Once, &runs, func() { entered <- struct{}{}; <-release })
		start(t, b, worker.Config{Name: "w1", Queues: []string{"default", "other"}}, tool)
		start(t, b, worker.Config{Name: "w2", Queues: []string{"default", "other"}}, tool)
		submit(t, b, "stevedore.call.default.once", `{"id":"a","args":{"text":"x"}}`)
		<-entered
		submit(t, b, "stevedore.call.other.once", `{"id":"a","args":{"text":"x"}}`)
		time.Sleep(time.Second)
		close(release)
		waitEmpty(t, b)
		if n := runs.Load(); n != 1 {
			t.Errorf("ran %d times", n)
		}
		body, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("default", "a")))
		if res, _ := tools.DecodeResult(body); !ok || err != nil || res.Outcome != tools.Completed {
			t.Errorf("result %s, %v", body, err)
		}
	})
}

func TestRawResult(t *testing.T) {
	b := bustest.New(t)
	start(t, b, worker.Config{})
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, "stevedore.raw.default.their_tool", `{"id":"r","session":"s","for_llm":"text","for_user":"hello"}`)
	got, _ := bustest.Next[tools.ResultEvent](t, results)
	if got.ForLLM != "text" || got.ForUser != "hello" || got.Tool != "their_tool" || got.Outcome != tools.Completed {
		t.Errorf("result %+v", got)
	}
}

// The record of a raw event's object has the tool and the id of the event, even if
// the body contains neither.
func TestRawObject(t *testing.T) {
	b := bustest.New(t)
	store, err := object.Open(t.Context(), b.JetStream(), object.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := b.JetStream().ObjectStore(t.Context(), object.DefaultBlobBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.PutString(t.Context(), "default/upload", strings.Repeat("a line\n", 10_000)); err != nil {
		t.Fatal(err)
	}
	workertest.Start(t, b, offload.NewOffloader(store, offload.Config{}), worker.Config{})
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, "stevedore.raw.default.their_tool", `{"object":"default/upload"}`)
	got, _ := bustest.Next[tools.ResultEvent](t, results)
	if got.Artifact == nil || got.Artifact.ID != tools.Token(got.ID) || !strings.Contains(got.ForLLM, "\ntool: \"their_tool\"\n") {
		t.Fatalf("call %q has the artifact %+v: %.500s", got.ID, got.Artifact, got.ForLLM)
	}
	rec, err := store.Get(t.Context(), got.Session, got.Artifact.ID)
	if err != nil || rec.Metadata["tool_name"] != "their_tool" {
		t.Errorf("record %+v, %v", rec, err)
	}
}

func TestPanickingTool(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	start(t, b, worker.Config{}, echo(t, "boom", tools.Idempotent, &runs, func() { panic("boom") }))
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, "stevedore.call.default.boom", `{"id":"p","args":{"text":"x"}}`)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Error == nil || got.Error.Code != tools.CodePanic {
		t.Errorf("result %+v", got)
	}
}

// manualAsync is an async tool whose callback the test calls.
type manualAsync struct {
	effect  tools.Effect
	started chan tools.AsyncCallback
}

func (l manualAsync) Definition() tools.Definition {
	return tools.Definition{Name: "later", Description: "completes when the test says so", Effect: l.effect}
}
func (l manualAsync) Execute(context.Context, tools.Call) *tools.Result {
	return tools.ErrorResult("not async")
}
func (l manualAsync) ExecuteAsync(_ context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	l.started <- callback
	return tools.AsyncResult("started")
}

func TestAsyncCompletion(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		tool := manualAsync{effect: tools.Idempotent, started: make(chan tools.AsyncCallback, 1)}
		// There is one slot, and the tool in the background must not hold it.
		var runs atomic.Int64
		start(t, b, worker.Config{Slots: 1}, tool, echo(t, "echo", tools.Idempotent, &runs, nil))
		events := bustest.Subscribe(t, b, "stevedore.*.s.*")
		submit(t, b, "stevedore.call.default.later", `{"id":"j","session":"s"}`)
		first, msg := bustest.Next[tools.ResultEvent](t, events)
		if first.Outcome != tools.Async || !first.Async || msg.Subject != "stevedore.result.s.j" {
			t.Errorf("result %+v on %s", first, msg.Subject)
		}
		submit(t, b, "stevedore.call.default.echo", `{"id":"e","session":"s","args":{"text":"x"}}`)
		for _, want := range []string{"stevedore.result.s.e", "stevedore.report.s.e"} {
			if got, msg := bustest.Next[tools.ResultEvent](t, events); got.ID != "e" || msg.Subject != want {
				t.Errorf("%+v on %s, want %s", got, msg.Subject, want)
			}
		}
		callback := <-tool.started
		callback(t.Context(), tools.UserResult("done"))
		callback(t.Context(), tools.UserResult("done twice"))
		got, msg := bustest.Next[tools.ResultEvent](t, events)
		if got.ForUser != "done" || msg.Subject != "stevedore.completion.s.j" || got.Outcome != tools.Completed {
			t.Errorf("completion %+v on %s", got, msg.Subject)
		}
		waitEmpty(t, b)
	})
}

// A stopping worker requeues running calls without counting an attempt, and the
// next worker runs them.
func TestStopRequeues(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		started := make(chan struct{}, 1)
		block, err := tools.NewTool("block", "blocks until it is cancelled", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result {
			started <- struct{}{}
			<-ctx.Done()
			return tools.ErrorResult("interrupted")
		})
		if err != nil {
			t.Fatal(err)
		}
		submit(t, b, "stevedore.call.default.block", `{"id":"a"}`)
		for range 8 { // more often than MaxAttempts
			stop := start(t, b, worker.Config{Grace: time.Millisecond, MaxAttempts: 3}, block.WithEffect(tools.Idempotent))
			<-started
			stop()
		}
		record, err := task.ReadRecord(t.Context(), b, tools.CallKey{Session: "default", ID: "a"})
		if record.Starts != 0 || err != nil {
			t.Errorf("interrupted attempts count: %d, %v", record.Starts, err)
		}
		var runs atomic.Int64
		start(t, b, worker.Config{MaxAttempts: 3}, echo(t, "block", tools.Idempotent, &runs, nil))
		got, _ := bustest.Next[tools.ResultEvent](t, results)
		if got.Error == nil || got.Error.Code != tools.CodeInvalidArguments { // of echo's schema: the call was delivered
			t.Errorf("result %+v", got)
		}
	})
}

func TestTickBecomesCall(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, nil))
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, "stevedore.tick.heartbeat.main", `{"tool":"echo","args":{"text":"tick"}}`)
	got, msg := bustest.Next[tools.ResultEvent](t, results)
	if got.ForLLM != "tick" || got.Session != "heartbeat-main" || !strings.HasPrefix(msg.Subject, "stevedore.result.heartbeat-main.heartbeat-main-20") {
		t.Errorf("result %+v on %s", got, msg.Subject)
	}
}

func TestManyCallsOneResultEach(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	for i := range 3 {
		start(t, b, worker.Config{Name: fmt.Sprint("w", i), Slots: 16}, echo(t, "echo", tools.Idempotent, &runs, nil))
	}
	const n = 500
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	for i := range n {
		submit(t, b, "stevedore.call.default.echo", fmt.Sprintf(`{"id":"c%d","args":{"text":"%d"}}`, i, i))
	}
	seen := map[string]bool{}
	for range n {
		got, _ := bustest.Next[tools.ResultEvent](t, results)
		if seen[got.ID] || "c"+got.ForLLM != got.ID {
			t.Fatalf("result %+v", got)
		}
		seen[got.ID] = true
	}
	waitEmpty(t, b)
}

// waitEmpty waits until all calls are acknowledged.
func waitEmpty(t *testing.T, b *bus.Bus) {
	t.Helper()
	bustest.WaitUntil(t, "all calls to be acknowledged", func() bool { return bustest.Waiting(t, b) == 0 })
}

// event reads the result or completion that is stored on a subject, if any.
func event(t *testing.T, b *bus.Bus, subject string) (tools.ResultEvent, bool) {
	t.Helper()
	stored, ok, err := task.ReadResult(t.Context(), b, subject)
	if err != nil {
		t.Fatal(err)
	}
	return stored.ResultEvent, ok
}
