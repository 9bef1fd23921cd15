package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// asyncTool is an async tool that calls do in the background.
type asyncTool struct {
	name   string
	effect tools.Effect
	do     func(ctx context.Context, callback tools.AsyncCallback)
}

func (a asyncTool) Definition() tools.Definition {
	return tools.Definition{Name: a.name, Description: "calls a function of the test", Effect: a.effect}
}
func (asyncTool) Execute(context.Context, tools.Call) *tools.Result {
	return tools.ErrorResult("not async")
}
func (a asyncTool) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go a.do(ctx, callback)
	return tools.AsyncResult("Task started in background")
}

// testChannel receives the notifications of the notifier.
type testChannel chan channel.Notification

func (c testChannel) Send(_ context.Context, n channel.Notification) error { c <- n; return nil }

func (c testChannel) next(t *testing.T) channel.Notification {
	t.Helper()
	select {
	case n := <-c:
		return n
	case <-time.After(bustest.Timeout):
		t.Fatal("no notification")
		panic("unreachable")
	}
}

// startConsole starts a notifier with the returned channel as its console.
func startConsole(t *testing.T, b *bus.Bus) testChannel {
	t.Helper()
	c := make(testChannel, 100)
	startNotifier(t, b, notify.Config{Channels: map[string]channel.Channel{"console": c}})
	return c
}

func startNotifier(t *testing.T, b *bus.Bus, cfg notify.Config) {
	t.Helper()
	cfg.Log = bustest.Log(t)
	n, err := notify.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, n.Run)
}

// Every end of an async tool leads to one completion with its outcome, and to one
// notification.
func TestEveryEndOfAnAsyncToolIsReported(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		toolset := []tools.Tool{
			asyncTool{"well", tools.Once, func(ctx context.Context, done tools.AsyncCallback) { done(ctx, tools.UserResult("It is done.")) }},
			asyncTool{"error", tools.Once, func(ctx context.Context, done tools.AsyncCallback) { done(ctx, tools.ErrorResult("the oven is cold")) }},
			asyncTool{"nothing", tools.Once, func(ctx context.Context, done tools.AsyncCallback) { done(ctx, nil) }},
			// A panic that is not recovered ends the process: TestDeadLetterOfAsyncCall.
			asyncTool{"panic", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
				defer func() { done(ctx, tools.Failure(tools.Errorf(tools.CodePanic, "panicked: %v", recover()))) }()
				panic("boom")
			}},
			asyncTool{"stops", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
				<-ctx.Done()
				done(ctx, tools.Failure(fmt.Errorf("stopped half way: %w", ctx.Err())))
			}},
			asyncTool{"terse", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
				<-ctx.Done()
				done(ctx, tools.Failure(ctx.Err()))
			}},
			asyncTool{"ignores", tools.Once, func(context.Context, tools.AsyncCallback) {}},
		}
		start(t, b, worker.Config{}, toolset...)
		notified := startConsole(t, b)
		soon := time.Now().Add(10 * time.Second).UTC().Format(time.RFC3339Nano)
		cases := map[string]struct {
			tool, deadline string
			cancel         bool
			outcome        tools.Outcome
			code, text     string
		}{
			"well":              {"well", "", false, tools.Completed, "", "It is done."},
			"error":             {"error", "", false, tools.Failed, tools.CodeToolFailed, "error did not succeed (failed): the oven is cold"},
			"nothing":           {"nothing", "", false, tools.Failed, tools.CodePanic, "the tool nothing completed without a result"},
			"panic":             {"panic", "", false, tools.Failed, tools.CodePanic, "panicked: boom"},
			"deadline":          {"stops", soon, false, tools.Timeout, tools.CodeTimeout, "stops did not succeed (timeout): stopped half way"},
			"deadline-terse":    {"terse", soon, false, tools.Timeout, tools.CodeTimeout, "terse did not succeed (timeout): the deadline of the call"},
			"deadline-ignores":  {"ignores", soon, false, tools.Timeout, tools.CodeTimeout, "the deadline of the call"},
			"cancelled":         {"stops", "", true, tools.Cancelled, tools.CodeCancelled, "stops did not succeed (cancelled): stopped half way"},
			"cancelled-terse":   {"terse", "", true, tools.Cancelled, tools.CodeCancelled, "terse did not succeed (cancelled): the call was cancelled"},
			"cancelled-ignores": {"ignores", "", true, tools.Cancelled, tools.CodeCancelled, "the call was cancelled"},
			"deadline-passed":   {"well", "1999-01-01T00:00:00Z", false, "", "", ""}, // its result says that it was not started
		}
		for id, c := range cases {
			body := fmt.Sprintf(`{"id":%q,"session":"s"}`, id)
			if c.deadline != "" {
				body = fmt.Sprintf(`{"id":%q,"session":"s","deadline":%q}`, id, c.deadline)
			}
			submit(t, b, short("default", c.tool), body)
		}
		for id, c := range cases {
			if !c.cancel {
				continue
			}
			bustest.WaitUntil(t, id+" to run", func() bool { _, ok := event(t, b, b.Result("s", id)); return ok })
			if err := task.RecordCancellation(t.Context(), b, "s", id); err != nil {
				t.Fatal(err)
			}
		}
		waitEmpty(t, b)

		texts := map[string]string{}
		for range len(cases) - 1 {
			n := notified.next(t)
			if texts[n.ID] != "" {
				t.Errorf("%s was notified twice", n.ID)
			}
			texts[n.ID] = n.Text
		}
		for id, c := range cases {
			result, _ := event(t, b, b.Result("s", id))
			completion, ok := event(t, b, b.Completion("s", id))
			if c.outcome == "" {
				if ok || result.Outcome != tools.Timeout {
					t.Errorf("%s: result %+v, completion %+v", id, result, completion)
				}
				continue
			}
			if result.Outcome != tools.Async || !ok || completion.Outcome != c.outcome || completion.IsError != (c.code != "") {
				t.Errorf("%s: result %+v, completion %+v", id, result, completion)
			} else if c.code != "" && (completion.Error == nil || completion.Error.Code != c.code) {
				t.Errorf("%s: error %+v, want code %s", id, completion.Error, c.code)
			}
			if text := texts["completion.s."+id]; !strings.Contains(text, c.text) {
				t.Errorf("%s: notified %q, want %q", id, text, c.text)
			}
		}
	})
}

// A panic while the async tool starts is the only result of the call.
func TestAsyncPanicAtStart(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		start(t, b, worker.Config{}, panicky{})
		submit(t, b, "stevedore.call.default.panicky", `{"id":"a"}`)
		waitEmpty(t, b)
		result, _ := event(t, b, b.Result("default", "a"))
		if _, ok := event(t, b, b.Completion("default", "a")); ok || result.Error == nil || result.Error.Code != tools.CodePanic {
			t.Errorf("result %+v, completion %t", result, ok)
		}
	})
}

// panicky calls back and then panics.
type panicky struct{ asyncTool }

func (panicky) Definition() tools.Definition {
	return tools.Definition{Name: "panicky", Description: "panics", Effect: tools.Idempotent}
}
func (panicky) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	callback(ctx, tools.UserResult("done"))
	panic("boom")
}

// A dead letter of a schedule's call is notified once. Other calls only get a result:
// their submitter reads it.
func TestDeadLetterOfScheduledCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		notified := startConsole(t, b)
		recordStart(t, b, "mine")
		recordStart(t, b, "tick")
		for _, call := range []string{`{"id":"mine"}`, `{"id":"tick","action":"cron"}`} {
			msg := bus.Message{Subject: bustest.CallSubject(b, "default", "gone", []byte(call)), Body: []byte(call)}
			if _, err := b.Publish(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
		}
		bustest.Fail(t, b, "default", 1)
		start(t, b, worker.Config{MaxAttempts: 1})
		waitEmpty(t, b)
		for _, id := range []string{"mine", "tick"} {
			result, _ := event(t, b, b.Result("default", id))
			if result.Outcome != tools.Failed || !strings.Contains(result.ForLLM, "gave up on") {
				t.Errorf("%s: result %+v", id, result)
			}
		}
		if n := notified.next(t); n.Call != "tick" || !n.IsError {
			t.Errorf("notified %+v", n)
		}
		// This notification is queued after those of the first dead letters.
		submit(t, b, "stevedore.dead.tick.last", `{"kind":"tick","name":"last","reason":"the end","subject":"stevedore.tick.cron.last","body":{"tool":"x"}}`)
		if n := notified.next(t); !strings.Contains(n.Text, "the end") {
			t.Errorf("notified a second time: %+v", n)
		}
	})
}

// A different call with a used id becomes a dead letter and does not end the call
// that is running with this id.
func TestDeadLetterOfReusedID(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		submit(t, b, b.Claim("default", "a"), `{"worker":"w","nonce":"n","call_digest":"another"}`)
		start(t, b, worker.Config{}, echo(t, "once", tools.Once, new(atomic.Int64), nil))
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")
		submit(t, b, short("default", "once"), `{"id":"a","args":{"text":"x"}}`)
		if got, _ := bustest.Next[dead.Letter](t, letters); got.Code != tools.CodeMismatch {
			t.Errorf("dead letter %+v", got)
		}
		waitEmpty(t, b)
		if result, ok := event(t, b, b.Result("default", "a")); ok {
			t.Errorf("the running call has a result: %+v", result)
		}
	})
}

// If another process publishes the final result first, the worker stops the async
// tool and publishes no completion.
func TestAsyncToolThatLostTheRace(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		stopped := make(chan struct{})
		body, err := bus.Encode(tools.NewResultEvent(tools.Call{ID: "1", Session: "s", Tool: "slow"}, tools.Failure(tools.Errorf(tools.CodeCancelled, "cancelled"))))
		if err != nil {
			t.Fatal(err)
		}
		other := func(step string) {
			if step == "run" {
				if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "1"), Body: body}); err != nil {
					t.Error(err)
				}
			}
		}
		workertest.StartSteps(t, b, workertest.Plain{}, worker.Config{}, other, asyncTool{"slow", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
			select {
			case <-ctx.Done():
			case <-time.After(bustest.Timeout):
				t.Error("the tool was not stopped")
			}
			done(ctx, tools.UserResult("It is done."))
			close(stopped)
		}})
		submit(t, b, short("default", "slow"), `{"id":"1","session":"s"}`)
		<-stopped
		waitEmpty(t, b)
		if data, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Completion("s", "1"))); ok || err != nil {
			t.Errorf("a completion in addition to a final result: %s, %v", data, err)
		}
	})
}

// Another worker starts the tool of a call in the background while this one runs it, and dies
// before it stores its report. This worker does, and its own result is the completion.
func TestReportOfAnAsyncResultThatWon(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		tool, err := tools.NewTool("later", "loses against another worker", func(context.Context, tools.Call, struct{}) *tools.Result {
			submit(t, b, b.Result("s", "j"), `{"id":"j","session":"s","tool":"later","outcome":"async","async":true,"for_user":"I began."}`)
			return tools.UserResult("done")
		})
		if err != nil {
			t.Fatal(err)
		}
		start(t, b, worker.Config{}, tool.WithEffect(tools.Idempotent))
		submit(t, b, b.Call("default", "later", "s", "j"), `{}`)
		waitEmpty(t, b)
		if report, ok := event(t, b, b.Report("s", "j")); !ok || report.ForUser != "I began." {
			t.Errorf("report %+v, %v", report, ok)
		}
		if completion, ok := event(t, b, b.Completion("s", "j")); !ok || completion.ForUser != "done" {
			t.Errorf("completion %+v, %v", completion, ok)
		}
	})
}

// A worker that dies after it stored the async result of a call has not stored the report of its
// text for the user; the next worker does.
func TestReportOfAnAsyncResultOfADeadWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		submit(t, b, b.Result("s", "j"), `{"id":"j","session":"s","tool":"later","outcome":"async","async":true,"for_user":"I began."}`)
		submit(t, b, b.Call("default", "later", "s", "j"), `{}`)
		start(t, b, worker.Config{}, asyncTool{"later", tools.Keyed, func(ctx context.Context, done tools.AsyncCallback) { done(ctx, tools.UserResult("done")) }})
		waitEmpty(t, b)
		if report, ok := event(t, b, b.Report("s", "j")); !ok || report.ForUser != "I began." {
			t.Errorf("report %+v, %v", report, ok)
		}
		if completion, ok := event(t, b, b.Completion("s", "j")); !ok || completion.ForUser != "done" {
			t.Errorf("completion %+v, %v", completion, ok)
		}
	})
}
