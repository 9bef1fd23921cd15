package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// patient is an async tool whose job ends when release is closed or its context
// ends, whichever is first.
type patient struct{ release chan struct{} }

func (patient) Definition() tools.Definition {
	return tools.Definition{Name: "patient", Description: "waits", Effect: tools.Idempotent}
}
func (patient) Execute(context.Context, tools.Call) *tools.Result {
	return tools.ErrorResult("not async")
}
func (p patient) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go func() {
		select {
		case <-p.release:
			callback(ctx, tools.UserResult("done"))
		case <-ctx.Done():
			callback(ctx, tools.ErrorResult("cut short"))
		}
	}()
	return tools.AsyncResult("started")
}

// A call's deadline used to end an async job as soon as it had started.
func TestAsyncJobLivesUntilItsDeadline(t *testing.T) {
	b := bustest.New(t)
	tool := patient{release: make(chan struct{})}
	start(t, b, worker.Config{}, tool)
	events := bustest.Subscribe(t, b, "stevedore.*.s.*")
	submit(t, b, "stevedore.call.default.patient", `{"id":"a","session":"s","deadline":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`)
	if got, _ := bustest.Next[tools.ResultEvent](t, events); got.Outcome != tools.Async {
		t.Fatalf("result %+v", got)
	}
	close(tool.release)
	if got, _ := bustest.Next[tools.ResultEvent](t, events); got.Outcome != tools.Completed {
		t.Errorf("completion %+v", got)
	}
}

// An id that is too long is answered where its client looks: under its own
// token, not under that of the beginning that is quoted.
func TestHugeIDIsAnsweredUnderItsToken(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil))
	id := strings.Repeat("y", tools.MaxIDLen+1)
	results := bustest.Subscribe(t, b, b.Result("default", tools.Token(id)))
	submit(t, b, "stevedore.call.default.echo", `{"id":"`+id+`"}`)
	got, _ := bustest.Next[tools.ResultEvent](t, results)
	if got.Error == nil || got.Error.Code != tools.CodeInvalidCall || len(got.ID) > 1024 || runs.Load() != 0 {
		t.Errorf("result %+v", got.Error)
	}
}

// A chat_id that would fill the result's event is refused before the tool runs.
func TestHugeChatID(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil))
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, "stevedore.call.default.echo", `{"id":"a","chat_id":"`+strings.Repeat("z", 1<<20-1000)+`","args":{"text":"x"}}`)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Error == nil || got.Error.Code != tools.CodeInvalidCall || runs.Load() != 0 {
		t.Errorf("result %+v", got.Error)
	}
}

// delegating answers async, but it is somebody else who completes.
type delegating struct{}

func (delegating) Definition() tools.Definition {
	return tools.Definition{Name: "delegating", Description: "lets others do it", Effect: tools.Keyed}
}
func (delegating) Execute(context.Context, tools.Call) *tools.Result {
	return tools.AsyncResult("started elsewhere")
}

// A tool without a callback used to hold its call for ever when it answered
// async.
func TestAsyncWithoutCallbackIsAcknowledged(t *testing.T) {
	b := bustest.New(t)
	start(t, b, worker.Config{}, delegating{})
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, "stevedore.call.default.delegating", `{"id":"a"}`)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Async {
		t.Errorf("result %+v", got)
	}
	waitEmpty(t, b)
}

// A queue that cannot be served is refused before anything is.
func TestBadQueueName(t *testing.T) {
	b := bustest.New(t)
	err := worker.New(b, tools.NewRegistry(bustest.Log(t)), plain{}, worker.Config{Queues: []string{"good", "b.d"}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"b.d"`) {
		t.Errorf("error %v", err)
	}
	if _, err := b.JetStream().Consumer(t.Context(), b.StreamName("CALLS"), "worker-good"); err == nil {
		t.Error("the other queue is served")
	}
}

// A tick for a queue that cannot exist is a dead letter at once.
func TestTickForBadQueue(t *testing.T) {
	b := bustest.New(t)
	start(t, b, worker.Config{Ticks: true})
	dead := bustest.Subscribe(t, b, "stevedore.dead.tick.main")
	submit(t, b, "stevedore.tick.cron.main", `{"tool":"echo","queue":"a.*"}`)
	if got, _ := bustest.Next[struct{ Code string }](t, dead); got.Code != "undecodable" {
		t.Errorf("dead letter %+v", got)
	}
}

// A worker that got the call a second time goes on asking while the first one
// runs it, and does not call its outcome unknown.
func TestRunningElsewhereIsLeftAlone(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	entered, release := make(chan struct{}, 2), make(chan struct{})
	tool := echo(t, "once", tools.Once, &runs, func() { entered <- struct{}{}; <-release })
	for range 2 { // one slot each, so that the second message goes to the other
		start(t, b, worker.Config{Slots: 1}, tool)
	}
	questions := bustest.Subscribe(t, b, b.RPC("running", "*", "*"))
	for range 2 {
		submit(t, b, "stevedore.call.default.once", `{"id":"a","args":{"text":"x"}}`)
	}
	<-entered
	for range 2 {
		if _, err := questions.NextMsg(20 * time.Second); err != nil {
			t.Fatalf("the other worker does not ask again: %v", err)
		}
	}
	close(release)
	waitEmpty(t, b)
	body, _, err := b.LastMessage(t.Context(), "RESULTS", b.Result("default", "a"))
	if res, _ := tools.DecodeResult(body); err != nil || res.Outcome != tools.Completed || runs.Load() != 1 {
		t.Errorf("result %s after %d runs, %v", body, runs.Load(), err)
	}
}

// broken stands under the name of patient and does not start its job.
type broken struct{ patient }

func (broken) ExecuteAsync(context.Context, tools.Call, tools.AsyncCallback) *tools.Result {
	return tools.ErrorResult("cannot start")
}

// A job that was started, interrupted, and then could not be started again ends
// with a completion that says so.
func TestJobThatCannotStartAgainCompletes(t *testing.T) {
	b := bustest.New(t)
	events := bustest.Subscribe(t, b, "stevedore.*.s.*")
	submit(t, b, "stevedore.call.default.patient", `{"id":"a","session":"s"}`)
	registry := tools.NewRegistry(bustest.Log(t))
	if err := registry.Register(patient{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.New(b, registry, plain{}, worker.Config{Grace: time.Millisecond}).Run(ctx) }()
	if got, _ := bustest.Next[tools.ResultEvent](t, events); got.Outcome != tools.Async {
		t.Fatalf("result %+v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	start(t, b, worker.Config{}, broken{})
	waitEmpty(t, b)
	body, ok, err := b.LastMessage(t.Context(), "RESULTS", b.Completion("s", "a"))
	if res, _ := tools.DecodeResult(body); !ok || err != nil || res.Outcome != tools.Failed {
		t.Errorf("completion %s, %v", body, err)
	}
}

// logged signals each line of a log that contains text.
type logged struct {
	text string
	seen chan struct{}
}

func (l logged) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.text) {
		select {
		case l.seen <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// A call is not given up on because the results are full: it waits for room.
func TestClaimWaitsForRoom(t *testing.T) {
	waits := logged{"cannot publish", make(chan struct{}, 1)}
	b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 64 << 10, Log: zerolog.New(waits)})
	for i := 0; ; i++ {
		_, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("filler", fmt.Sprint(i)), Body: make([]byte, 1<<10>>min(i/60*10, 10))})
		if errors.Is(err, bus.ErrFull) && i > 60 {
			break
		}
		if err != nil && !errors.Is(err, bus.ErrFull) {
			t.Fatal(err)
		}
	}
	var runs atomic.Int64
	registry := tools.NewRegistry(bustest.Log(t))
	if err := registry.Register(echo(t, "once", tools.Once, &runs, nil)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- worker.New(b, registry, plain{}, worker.Config{MaxAttempts: 1}).Run(ctx)
	}()
	submit(t, b, "stevedore.call.default.once", `{"id":"a","args":{"text":"x"}}`)
	select {
	case <-waits.seen:
	case <-time.After(20 * time.Second):
		t.Fatal("the claim does not wait")
	}
	s, err := b.JetStream().Stream(t.Context(), b.StreamName("RESULTS"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitEmpty(t, b)
	cancel()
	if err := <-done; err != nil || runs.Load() != 1 {
		t.Errorf("%d runs, %v", runs.Load(), err)
	}
}
