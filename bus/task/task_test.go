package task_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// parts is a bus with a worker.
type parts struct {
	bus     *bus.Bus
	blocked chan struct{} // receives when a tool starts
}

// start starts a worker with the tools block and background, which run until they
// are cancelled.
func start(t *testing.T) parts {
	t.Helper()
	p := parts{bus: bustest.New(t), blocked: make(chan struct{}, 10)}
	block := newTool(t, "block", func(ctx context.Context) *tools.Result {
		tools.ReportProgress(ctx, tools.Progress{Message: "waiting", Done: 1, Total: 4})
		p.blocked <- struct{}{}
		<-ctx.Done()
		return tools.ErrorResult("stopped")
	})
	workertest.Start(t, p.bus, workertest.Plain{}, worker.Config{Grace: time.Second}, block, background{p.blocked})
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

func publish(t *testing.T, b *bus.Bus, m bus.Message) {
	t.Helper()
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
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

func wantTask(t *testing.T, p parts, id string, want task.State) task.Task {
	t.Helper()
	got, err := task.Get(t.Context(), p.bus, "s", id)
	if err != nil || got.State != want {
		t.Fatalf("task %+v, %v, want %s", got, err, want)
	}
	return got
}

// A client whose publish of a raw result was not acknowledged learns whether it is stored.
func TestRawResultIsATask(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, queue := range []string{"none", bus.DefaultQueue} { // the first one has no worker
		if _, err := task.Get(t.Context(), p.bus, "s", queue); tools.CodeOf(err) != tools.CodeNotFound {
			t.Errorf("before it is published: %v", err)
		}
		publish(t, p.bus, bus.Message{Subject: p.bus.Raw(queue, "x", "s", queue), Body: []byte(`{"for_llm":"text"}`)})
	}
	wantTask(t, p, "none", task.Queued)
	bustest.WaitUntil(t, "the result", func() bool {
		got, err := task.Get(t.Context(), p.bus, "s", bus.DefaultQueue)
		if err != nil {
			t.Fatalf("while a worker takes it: %v", err)
		}
		return got.State == task.Completed
	})
}

// A call that waits is a task also if no worker can decode it, and if it waits in two queues: then one that a worker runs is
// running. Cancelling it leaves no message behind.
func TestOddCallsAreTasks(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, queue := range []string{"none", "none2"} {
		publish(t, p.bus, bus.Message{Subject: p.bus.Call(queue, "x", "s", "garbage"), Body: []byte("no JSON")})
		publish(t, p.bus, bus.Message{Subject: p.bus.Call(queue, "block", "s", "twice"), Body: []byte("{}")})
	}
	publish(t, p.bus, bus.Message{Subject: p.bus.Call(bus.DefaultQueue, "block", "s", "twice"), Body: []byte("{}")})
	<-p.blocked
	for id, state := range map[string]task.State{"garbage": task.Queued, "twice": task.Running} {
		wantTask(t, p, id, state)
		if lost, err := task.IsLost(t.Context(), p.bus, tools.CallKey{Session: "s", ID: id}); lost || err != nil {
			t.Errorf("%s is lost: %t, %v", id, lost, err)
		}
		if got, err := task.Cancel(t.Context(), p.bus, "s", id, "a test"); err != nil || got.State != task.Cancelled {
			t.Errorf("cancel %s: %+v, %v", id, got, err)
		}
	}
	bustest.WaitUntil(t, "an empty stream", func() bool { return bustest.Waiting(t, p.bus) == 0 })
}

// A running call can be cancelled, and a later result loses.
func TestCancel(t *testing.T) {
	t.Parallel()
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
			got := wantTask(t, p, c.id, task.Running)
			if c.tool == "block" && got.Progress.Message != "waiting" {
				t.Errorf("progress %+v", got.Progress)
			}
			list, err := task.List(ctx, p.bus, "s")
			if err != nil || !strings.Contains(list.Text(), c.id+"  running") {
				t.Errorf("list %s, %v", list.Text(), err)
			}
			got, err = task.Cancel(ctx, p.bus, "s", c.id, "the test")
			if err != nil || got.State != task.Cancelled {
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
			if _, err := task.Cancel(ctx, p.bus, "s", c.id, "the test"); err == nil {
				t.Error("a call was cancelled twice")
			}
		})
	}
}

// A queued call that is cancelled never runs, also if its worker does not look for a result
// because the call is new. It gets its result although a client forged one.
func TestCancelWhileQueued(t *testing.T) {
	t.Parallel()
	t.Run("new", func(t *testing.T) { cancelWhileQueued(t, nats.Header{bus.FreshHeader: {"1"}}) })
	t.Run("perhaps submitted before", func(t *testing.T) { cancelWhileQueued(t, nil) })
}

func cancelWhileQueued(t *testing.T, header nats.Header) {
	p := start(t)
	body := []byte(`{"id":"q","session":"s"}`)
	if _, err := p.bus.Publish(t.Context(), bus.Message{Subject: bustest.CallSubject(p.bus, "later", "block", body), Body: body, Key: "q", Header: header}); err != nil {
		t.Fatal(err)
	}
	if got := wantTask(t, p, "q", task.Queued); got.Tool != "block" {
		t.Errorf("task %+v", got)
	}
	publish(t, p.bus, bus.Message{Subject: "stevedore.result.s.q", Body: []byte(`{"stream":"STEVEDORE_CALLS","seq":1}`)}) // forged
	hints, results := bustest.Subscribe(t, p.bus, "stevedore.cancel.s.q"), bustest.Subscribe(t, p.bus, "stevedore.stored.result.s.q")
	if _, err := task.Cancel(t.Context(), p.bus, "s", "q", "the test"); err != nil {
		t.Fatal(err)
	}
	wantTask(t, p, "q", task.Cancelled)
	if _, err := hints.NextMsg(bustest.Timeout); err != nil { // for remote tools
		t.Error(err)
	}
	_, result := bustest.Next[tools.ResultEvent](t, results)
	if kind, id := result.Header.Get("ce-type"), result.Header.Get("ce-id"); kind != "stevedore.result" || id != "result.s.q" {
		t.Errorf("headers %v", result.Header)
	}

	if n := bustest.Waiting(t, p.bus); n > 0 {
		t.Errorf("%d calls wait in a queue without a worker", n)
	}

	// A client that got no acknowledgement publishes it again.
	if _, err := p.bus.Publish(t.Context(), bus.Message{Subject: bustest.CallSubject(p.bus, "later", "block", body), Body: body, Key: "again", Header: header}); err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{}, 1)
	block := newTool(t, "block", func(context.Context) *tools.Result {
		ran <- struct{}{}
		return tools.NewToolResult("ran")
	})
	workertest.Start(t, p.bus, workertest.Plain{}, worker.Config{Queues: []string{"later"}}, block)
	bustest.WaitUntil(t, "the call to be acknowledged", func() bool { return bustest.Waiting(t, p.bus) == 0 })
	if len(ran) > 0 {
		t.Error("a cancelled call was run")
	}
	wantTask(t, p, "q", task.Cancelled)
}

func TestUnknownTask(t *testing.T) {
	t.Parallel()
	p := start(t)
	if _, err := task.Get(t.Context(), p.bus, "s", "nosuch"); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("got %v", err)
	}
}

// A call whose result is gone before its record is unknown, not queued for ever.
func TestRecordWithoutAResult(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	if _, err := task.Park(t.Context(), b, task.Parked{Queue: "default", State: task.Waiting, Call: tools.Call{ID: "c", Session: "s", Tool: "x"}}); err != nil {
		t.Fatal(err)
	}
	p, _, err := task.ReadParked(t.Context(), b, tools.CallKey{Session: "s", ID: "c"})
	if err == nil {
		err = task.Resume(t.Context(), b, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", "c"); err != nil || got.State != task.Queued {
		t.Fatalf("a resumed call: %+v, %v", got, err)
	}
	stream, err := b.Stream(t.Context(), bus.Calls)
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", "c"); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A list has the running and then the queued calls of a session, from all queues.
func TestListShowsWhatWaits(t *testing.T) {
	t.Parallel()
	p := start(t)
	publish(t, p.bus, bus.Message{Subject: bustest.CallSubject(p.bus, "default", "block", []byte(`{"id":"runs","session":"s"}`)), Body: []byte(`{"id":"runs","session":"s"}`)})
	publish(t, p.bus, bus.Message{Subject: bustest.CallSubject(p.bus, "default", "background", []byte(`{"id":"job","session":"s"}`)), Body: []byte(`{"id":"job","session":"s"}`)})
	<-p.blocked
	<-p.blocked
	publish(t, p.bus, bus.Message{Subject: p.bus.Call("later", "block", "s", tools.Token("waits.1")), Body: []byte(`{"id":"waits.1","session":"s"}`)})
	publish(t, p.bus, bus.Message{Subject: bustest.CallSubject(p.bus, "later", "block", []byte(`{"id":"waits","session":"other"}`)), Body: []byte(`{"id":"waits","session":"other"}`)})
	publish(t, p.bus, bus.Message{Subject: p.bus.Call("later", "block", "s", "waits-2"), Body: []byte(`{"session":"s"}`)})

	list, err := task.List(t.Context(), p.bus, "s")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, listed := range list.Tasks {
		if (listed.State == task.Queued) != listed.StartedAt.IsZero() || listed.StartedAt.IsZero() == listed.QueuedAt.IsZero() {
			t.Errorf("task %+v", listed)
		}
		got = append(got, string(listed.State)+" "+listed.ID+" "+listed.Tool)
	}
	want := []string{"running runs block", "running job background", "queued " + tools.Token("waits.1") + " block", "queued waits-2 block"}
	if got[0] == want[1] { // they started in any order
		got[0], got[1] = got[1], got[0]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || list.Omitted != 0 || list.Incomplete {
		t.Errorf("listed %q, want %q", got, want)
	}
	if text := list.Text(); !strings.Contains(text, "waits-2  queued  block  waits for ") {
		t.Errorf("text %s", text)
	}
}

// slowWorker simulates a worker that answers when the test calls the function that
// it sends to asked.
func slowWorker(t *testing.T, b *bus.Bus, session string, answer []byte, asked chan<- func()) {
	t.Helper()
	sub, err := b.Conn().Subscribe(b.RPC("running", session), func(msg *nats.Msg) {
		asked <- func() {
			if err := msg.Respond(answer); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

// The list waits for a slow worker, because its call was delivered and no other
// worker has reported it.
func TestListWaitsForASlowWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		p := start(t)
		publish(t, p.bus, bus.Message{Subject: bustest.CallSubject(p.bus, "default", "block", []byte(`{"id":"quick","session":"s"}`)), Body: []byte(`{"id":"quick","session":"s"}`)})
		<-p.blocked
		// The call of the slow worker was delivered.
		publish(t, p.bus, bus.Message{Subject: bustest.CallSubject(p.bus, "slow", "x", []byte(`{"id":"slow","session":"s"}`)), Body: []byte(`{"id":"slow","session":"s"}`)})
		c := p.bus.WorkerConsumer("slow")
		consumer, err := p.bus.JetStream().CreateConsumer(t.Context(), p.bus.StreamName(c.Stream), consumerConfig(c))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := consumer.Next(); err != nil {
			t.Fatal(err)
		}
		asked := make(chan func(), 1)
		slowWorker(t, p.bus, "s", []byte(`[{"id":"slow","tool":"x","worker":"w","started_at":"1999-01-01T00:00:00Z"}]`), asked)
		go func() {
			respond := <-asked
			<-time.After(300 * time.Millisecond) // longer than the list waits for unexpected workers
			respond()
		}()
		list, err := task.List(t.Context(), p.bus, "s")
		if err != nil || len(list.Tasks) != 2 || list.Tasks[0].ID != "slow" || list.Tasks[0].State != task.Running || list.Tasks[1].State != task.Running {
			t.Errorf("listed %s, %v", list.Text(), err)
		}
	})
}

// A long list omits the calls that ended first, and contains their number.
func TestLongListOmitsTheOldest(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for i := range 600 {
		for _, end := range []struct{ kind, outcome string }{{"result", "async"}, {"completion", "completed"}} {
			if i >= 590 && end.kind == "completion" {
				continue
			}
			publish(t, b, bus.Message{Subject: fmt.Sprintf("stevedore.%s.s.t%d", end.kind, i), Body: fmt.Appendf(nil,
				`{"id":"t%d","session":"s","tool":"x","outcome":%q,"started_at":%q}`, i, end.outcome, time.Unix(int64(i), 0).UTC().Format(time.RFC3339))})
		}
	}
	list, err := task.List(t.Context(), b, "s")
	if err != nil || len(list.Tasks) != 500 || list.Omitted != 100 {
		t.Fatalf("%d tasks, %d omitted, %v", len(list.Tasks), list.Omitted, err)
	}
	if first, last := list.Tasks[0], list.Tasks[499]; first.ID != "t100" || last.ID != "t599" || last.State != task.Queued {
		t.Errorf("from %+v to %+v", first, last)
	}
	if text := list.Text(); !strings.Contains(text, "and 100 more") {
		t.Errorf("text ends in %s", text[len(text)-200:])
	}
}

func consumerConfig(c bus.Consumer) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: c.Name, FilterSubjects: c.Filter, AckPolicy: jetstream.AckExplicitPolicy}
}

// A call whose worker died is queued again, and the list has the reason.
func TestListOfADeadWorker(t *testing.T) {
	b := bustest.New(t)
	publish(t, b, bus.Message{Subject: bustest.CallSubject(b, "gone", "x", []byte(`{"id":"left","session":"s"}`)), Body: []byte(`{"id":"left","session":"s"}`)})
	c := b.WorkerConsumer("gone")
	consumer, err := b.JetStream().CreateConsumer(t.Context(), b.StreamName(c.Stream), consumerConfig(c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(); err != nil {
		t.Fatal(err)
	}
	list, err := task.List(t.Context(), b, "s")
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].State != task.Queued || !strings.Contains(list.Text(), "no worker said within 2s that it runs it") {
		t.Errorf("listed %s, %v", list.Text(), err)
	}
	if left, err := task.Get(t.Context(), b, "s", "left"); err != nil || left.State != task.Queued || !strings.Contains(left.Text(), "no worker said within 2s that it runs it") {
		t.Errorf("got %s, %v", left.Text(), err)
	}
}
