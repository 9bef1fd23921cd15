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
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// blockingAsync is an async tool that ends when release is closed or its context
// ends.
type blockingAsync struct{ release chan struct{} }

func (blockingAsync) Definition() tools.Definition {
	return tools.Definition{Name: "blocking", Description: "blocks", Effect: tools.Idempotent}
}
func (blockingAsync) Execute(context.Context, tools.Call) *tools.Result {
	return tools.ErrorResult("not async")
}
func (b blockingAsync) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go func() {
		select {
		case <-b.release:
			callback(ctx, tools.UserResult("done"))
		case <-ctx.Done():
			callback(ctx, tools.ErrorResult("cancelled"))
		}
	}()
	return tools.AsyncResult("started")
}

// An async tool runs until its deadline. A deadline used to end it immediately.
func TestAsyncToolRunsUntilItsDeadline(t *testing.T) {
	b := bustest.New(t)
	tool := blockingAsync{release: make(chan struct{})}
	start(t, b, worker.Config{}, tool)
	events := bustest.Subscribe(t, b, "stevedore.*.s.*")
	submit(t, b, "stevedore.call.default.blocking", `{"id":"a","session":"s","deadline":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`)
	if got, _ := bustest.Next[tools.ResultEvent](t, events); got.Outcome != tools.Async {
		t.Fatalf("result %+v", got)
	}
	close(tool.release)
	if got, _ := bustest.Next[tools.ResultEvent](t, events); got.Outcome != tools.Completed {
		t.Errorf("completion %+v", got)
	}
}

// The result of a call whose id is too long has the token of the whole id, on which
// the client waits, and not that of the shortened id.
func TestResultOfHugeID(t *testing.T) {
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

// A chat_id that is too large for the result event is rejected before the tool runs.
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

// delegating returns an async result without a callback.
type delegating struct{}

func (delegating) Definition() tools.Definition {
	return tools.Definition{Name: "delegating", Description: "starts work in another program", Effect: tools.Keyed}
}
func (delegating) Execute(context.Context, tools.Call) *tools.Result {
	return tools.AsyncResult("started elsewhere")
}

// An async result of a tool without a callback ends the call. The worker used to
// wait for a completion forever.
func TestAsyncWithoutCallbackIsAcknowledged(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		start(t, b, worker.Config{}, delegating{})
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		submit(t, b, "stevedore.call.default.delegating", `{"id":"a"}`)
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Async {
			t.Errorf("result %+v", got)
		}
		waitEmpty(t, b)
	})
}

// An invalid queue name is rejected before the worker consumes any queue.
func TestBadQueueName(t *testing.T) {
	b := bustest.New(t)
	err := worker.New(b, tools.NewRegistry(bustest.Log(t)), workertest.Plain{}, worker.Config{Queues: []string{"good", "b.d"}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"b.d"`) {
		t.Errorf("error %v", err)
	}
	if _, err := b.JetStream().Consumer(t.Context(), b.StreamName("CALLS"), "worker-good"); err == nil {
		t.Error("the other queue has a consumer")
	}
}

// A tick for an invalid queue becomes a dead letter immediately.
func TestTickForBadQueue(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, worker.Config{Ticks: true})
	letters := bustest.Subscribe(t, b, "stevedore.dead.tick.main")
	submit(t, b, "stevedore.tick.cron.main", `{"tool":"echo","queue":"a.*"}`)
	if got, _ := bustest.Next[struct{ Code string }](t, letters); got.Code != "undecodable" {
		t.Errorf("dead letter %+v", got)
	}
}

// A worker that receives a call which another worker is running keeps asking, and
// does not publish the outcome unknown.
func TestCallRunningOnAnotherWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		entered, release := make(chan struct{}, 2), make(chan struct{})
		tool := echo(t, "once", tools.Once, &runs, func() { entered <- struct{}{}; <-release })
		for _, queue := range []string{"default", "other"} { // each worker gets one message
			start(t, b, worker.Config{Queues: []string{queue}}, tool)
		}
		requests := bustest.Subscribe(t, b, b.RPC("running", "*", "*"))
		for _, queue := range []string{"default", "other"} {
			submit(t, b, "stevedore.call."+queue+".once", `{"id":"a","args":{"text":"x"}}`)
		}
		<-entered
		for range 2 {
			if _, err := requests.NextMsg(bustest.Timeout); err != nil {
				t.Fatalf("the other worker does not ask again: %v", err)
			}
		}
		close(release)
		waitEmpty(t, b)
		body, _, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("default", "a")))
		if res, _ := tools.DecodeResult(body); err != nil || res.Outcome != tools.Completed || runs.Load() != 1 {
			t.Errorf("result %s after %d runs, %v", body, runs.Load(), err)
		}
	})
}

// failingAsync replaces blockingAsync and fails to start.
type failingAsync struct{ blockingAsync }

func (failingAsync) ExecuteAsync(context.Context, tools.Call, tools.AsyncCallback) *tools.Result {
	return tools.ErrorResult("cannot start")
}

// An async tool that was interrupted and fails to start again ends with a completion.
func TestAsyncToolThatFailsToRestart(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		events := bustest.Subscribe(t, b, "stevedore.*.s.*")
		submit(t, b, "stevedore.call.default.blocking", `{"id":"a","session":"s"}`)
		stop := start(t, b, worker.Config{Grace: time.Millisecond}, blockingAsync{})
		if got, _ := bustest.Next[tools.ResultEvent](t, events); got.Outcome != tools.Async {
			t.Fatalf("result %+v", got)
		}
		stop()
		start(t, b, worker.Config{}, failingAsync{})
		waitEmpty(t, b)
		body, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Completion("s", "a")))
		if res, _ := tools.DecodeResult(body); !ok || err != nil || res.Outcome != tools.Failed {
			t.Errorf("completion %s, %v", body, err)
		}
	})
}

// logSignal signals each line of a log that contains text.
type logSignal struct {
	text string
	seen chan struct{}
}

func (l logSignal) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.text) {
		select {
		case l.seen <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// If the results stream is full, a call waits and does not become a dead letter.
func TestClaimWaitsUntilTheStreamHasSpace(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		waits := logSignal{"a publish waits for space", make(chan struct{}, 1)}
		b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 64 << 10, Log: zerolog.New(waits)})
		fillResults(t, b)
		var runs atomic.Int64
		stop := start(t, b, worker.Config{MaxAttempts: 1}, echo(t, "once", tools.Once, &runs, nil))
		submit(t, b, "stevedore.call.default.once", `{"id":"a","args":{"text":"x"}}`)
		select {
		case <-waits.seen:
		case <-time.After(bustest.Timeout):
			t.Fatal("the claim does not wait")
		}
		purgeResults(t, b)
		waitEmpty(t, b)
		stop()
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
}

func fillResults(t *testing.T, b *bus.Bus) {
	t.Helper()
	for i := 0; ; i++ {
		_, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("filler", fmt.Sprint(i)), Body: make([]byte, 1<<10>>min(i/60*10, 10))})
		if errors.Is(err, bus.ErrFull) && i > 60 {
			break
		}
		if err != nil && !errors.Is(err, bus.ErrFull) {
			t.Fatal(err)
		}
	}
}

// Who cancels a call while the results stream is full learns that.
func TestCancelWithFullResults(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 64 << 10, Log: bustest.Log(t)})
		submit(t, b, "stevedore.call.default.slow", `{"id":"c","session":"s","args":{"text":"x"}}`)
		fillResults(t, b)
		_, err := rpc.CancelTask.Do(t.Context(), b, "s", rpc.TaskRequest{ID: "c"})
		if _, ok := errors.AsType[*bus.FullError](err); !ok {
			t.Error(err)
		}
	})
}

func purgeResults(t *testing.T, b *bus.Bus) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.StreamName("RESULTS"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A worker that stops before it could store a result leaves the call to the next worker.
func TestUnstoredResultIsNotAcknowledged(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		waits := logSignal{"a publish waits for space", make(chan struct{}, 1)}
		b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 64 << 10, Log: zerolog.New(waits)})
		fillResults(t, b)
		var runs atomic.Int64
		tool := echo(t, "echo", tools.Idempotent, &runs, nil)
		stop := start(t, b, worker.Config{Grace: 10 * time.Millisecond}, tool)
		submit(t, b, "stevedore.call.default.echo", `{"id":"a","args":{"text":"x"}}`)
		select {
		case <-waits.seen:
		case <-time.After(bustest.Timeout):
			t.Fatal("the result does not wait")
		}
		stop()
		purgeResults(t, b)
		defer start(t, b, worker.Config{}, tool)()
		waitEmpty(t, b)
		if _, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("default", "a"))); err != nil || !ok {
			t.Errorf("the call has no result after %d runs: %v", runs.Load(), err)
		}
	})
}
