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
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// job is an async tool whose jobs do what a test says.
type job struct {
	name   string
	effect tools.Effect
	do     func(ctx context.Context, callback tools.AsyncCallback)
}

func (j job) Definition() tools.Definition {
	return tools.Definition{Name: j.name, Description: "does what a test says", Effect: j.effect}
}
func (job) Execute(context.Context, tools.Call) *tools.Result { return tools.ErrorResult("not async") }
func (j job) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go j.do(ctx, callback)
	return tools.AsyncResult("Task started in background")
}

// user reads what the notifier brings.
type user chan notify.Notification

func (u user) Send(_ context.Context, n notify.Notification) error { u <- n; return nil }

func (u user) next(t *testing.T) notify.Notification {
	t.Helper()
	select {
	case n := <-u:
		return n
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was told")
		panic("unreachable")
	}
}

// startUser starts a notifier whose only channel is the one that is returned.
func startUser(t *testing.T, b *bus.Bus) user {
	t.Helper()
	u := make(user, 100)
	startNotifier(t, b, notify.Config{Channels: map[string]notify.Channel{"console": u}})
	return u
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
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("notifier: %v", err)
		}
	})
}

// However a job in the background ends, it ends in one completion that says how,
// and its user is told.
func TestEachEndOfAnAsyncJobIsTold(t *testing.T) {
	b := bustest.New(t)
	toolset := []tools.Tool{
		job{"well", tools.Once, func(ctx context.Context, done tools.AsyncCallback) { done(ctx, tools.UserResult("It is done.")) }},
		job{"error", tools.Once, func(ctx context.Context, done tools.AsyncCallback) { done(ctx, tools.ErrorResult("the oven is cold")) }},
		job{"nothing", tools.Once, func(ctx context.Context, done tools.AsyncCallback) { done(ctx, nil) }},
		// A panic that nobody recovers ends the process: TestGivenUpAsyncJob.
		job{"panic", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
			defer func() { done(ctx, tools.Failure(tools.Errorf(tools.CodePanic, "panicked: %v", recover()))) }()
			panic("boom")
		}},
		job{"obedient", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
			<-ctx.Done()
			done(ctx, tools.Failure(fmt.Errorf("stopped half way: %w", ctx.Err())))
		}},
		job{"terse", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
			<-ctx.Done()
			done(ctx, tools.Failure(ctx.Err()))
		}},
		job{"deaf", tools.Once, func(context.Context, tools.AsyncCallback) {}},
	}
	start(t, b, worker.Config{}, toolset...)
	told := startUser(t, b)
	soon := time.Now().Add(500 * time.Millisecond).UTC().Format(time.RFC3339Nano)
	cases := map[string]struct {
		tool, deadline string
		cancel         bool
		outcome        tools.Outcome
		code, text     string
	}{
		"well":            {"well", "", false, tools.Completed, "", "It is done."},
		"error":           {"error", "", false, tools.Failed, tools.CodeToolFailed, "error did not succeed (failed): the oven is cold"},
		"nothing":         {"nothing", "", false, tools.Failed, tools.CodePanic, "the tool nothing completed with nothing"},
		"panic":           {"panic", "", false, tools.Failed, tools.CodePanic, "panicked: boom"},
		"deadline":        {"obedient", soon, false, tools.Timeout, tools.CodeTimeout, "obedient did not succeed (timeout): stopped half way"},
		"deadline-terse":  {"terse", soon, false, tools.Timeout, tools.CodeTimeout, "terse did not succeed (timeout): the deadline of the call"},
		"deadline-deaf":   {"deaf", soon, false, tools.Timeout, tools.CodeTimeout, "the deadline of the call"},
		"cancelled":       {"obedient", "", true, tools.Cancelled, tools.CodeCancelled, "obedient did not succeed (cancelled): stopped half way"},
		"cancelled-terse": {"terse", "", true, tools.Cancelled, tools.CodeCancelled, "terse did not succeed (cancelled): the call was cancelled"},
		"cancelled-deaf":  {"deaf", "", true, tools.Cancelled, tools.CodeCancelled, "the call was cancelled"},
		"deadline-passed": {"well", "2020-01-01T00:00:00Z", false, "", "", ""}, // never started: its result says so
	}
	for id, c := range cases {
		body := fmt.Sprintf(`{"id":%q,"session":"s"}`, id)
		if c.deadline != "" {
			body = fmt.Sprintf(`{"id":%q,"session":"s","deadline":%q}`, id, c.deadline)
		}
		submit(t, b, b.Call("default", c.tool), body)
	}
	for id, c := range cases {
		if !c.cancel {
			continue
		}
		await(t, id+" runs", func() bool { _, ok := event(t, b, b.Result("s", id)); return ok })
		if err := task.Cancel(t.Context(), b, "s", id); err != nil {
			t.Fatal(err)
		}
	}
	waitEmpty(t, b)

	texts := map[string]string{}
	for range len(cases) - 1 {
		n := told.next(t)
		if texts[n.ID] != "" {
			t.Errorf("%s was told twice", n.ID)
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
			t.Errorf("%s: told %q, want %q", id, text, c.text)
		}
	}
}

// A panic before anything was started is the call's result, and the only one.
func TestAsyncPanicAtTheStart(t *testing.T) {
	b := bustest.New(t)
	start(t, b, worker.Config{}, panicky{})
	submit(t, b, "stevedore.call.default.panicky", `{"id":"a"}`)
	waitEmpty(t, b)
	result, _ := event(t, b, b.Result("default", "a"))
	if _, ok := event(t, b, b.Completion("default", "a")); ok || result.Error == nil || result.Error.Code != tools.CodePanic {
		t.Errorf("result %+v, completion %t", result, ok)
	}
}

// panicky calls back and panics all the same.
type panicky struct{ job }

func (panicky) Definition() tools.Definition {
	return tools.Definition{Name: "panicky", Description: "panics", Effect: tools.Idempotent}
}
func (panicky) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	callback(ctx, tools.UserResult("done"))
	panic("boom")
}

// The call of a schedule that is given up on is told, once, and does not stand
// in the way of the next one; whoever waits for any other reads its answer.
func TestGivenUpCallOfASchedule(t *testing.T) {
	b := bustest.New(t)
	start(t, b, worker.Config{MaxAttempts: 1})
	told := startUser(t, b)
	for _, call := range []string{`{"id":"mine"}`, `{"id":"tick","action":"cron"}`} {
		msg := bus.Message{Subject: "stevedore.call.default.gone", Body: []byte(call), Header: map[string][]string{"Stevedore-Attempt": {"1"}}}
		if _, err := b.Publish(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	waitEmpty(t, b)
	for _, id := range []string{"mine", "tick"} {
		result, _ := event(t, b, b.Result("default", id))
		if result.Outcome != tools.Failed || !strings.Contains(result.ForLLM, "gave up on") {
			t.Errorf("%s: result %+v", id, result)
		}
	}
	if n := told.next(t); n.Call != "tick" || !n.IsError {
		t.Errorf("told %+v", n)
	}
	// The news of another job comes behind what the dead letter leads to.
	submit(t, b, "stevedore.dead.tick.last", `{"kind":"tick","name":"last","reason":"the end","subject":"stevedore.tick.cron.last","body":{"tool":"x"}}`)
	if n := told.next(t); !strings.Contains(n.Text, "the end") {
		t.Errorf("told a second time: %+v", n)
	}
}

// A second message under the id of a call is given up on for what it is; the
// call itself goes on, and its answer is its own.
func TestGivenUpStrangerLeavesTheCallAlone(t *testing.T) {
	b := bustest.New(t)
	submit(t, b, b.Claim("default", "a"), `{"worker":"w","nonce":"n","call_digest":"another"}`)
	start(t, b, worker.Config{AskTimeout: 50 * time.Millisecond}, echo(t, "once", tools.Once, new(atomic.Int64), nil))
	dead := bustest.Subscribe(t, b, "stevedore.dead.>")
	submit(t, b, b.Call("default", "once"), `{"id":"a","args":{"text":"x"}}`)
	if got, _ := bustest.Next[bus.DeadLetter](t, dead); got.Code != tools.CodeMismatch {
		t.Errorf("dead letter %+v", got)
	}
	waitEmpty(t, b)
	if result, ok := event(t, b, b.Result("default", "a")); ok {
		t.Errorf("the running call was answered: %+v", result)
	}
}

// A job whose call was answered for good by somebody else meanwhile is stopped,
// and no completion stands beside that answer.
func TestAsyncJobThatIsBeatenToItsResult(t *testing.T) {
	b := bustest.New(t)
	stopped := make(chan struct{})
	start(t, b, worker.Config{}, job{"slow", tools.Once, func(ctx context.Context, done tools.AsyncCallback) {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
			t.Error("the job goes on")
		}
		done(ctx, tools.UserResult("It is done."))
		close(stopped)
	}})
	body, err := bus.Encode(tools.NewResultEvent(tools.Call{ID: "1", Session: "s", Tool: "slow"}, tools.Failure(tools.Errorf(tools.CodeCancelled, "cancelled"))))
	if err != nil {
		t.Fatal(err)
	}
	submit(t, b, b.Result("s", "1"), string(body))
	submit(t, b, b.Call("default", "slow"), `{"id":"1","session":"s"}`)
	<-stopped
	waitEmpty(t, b)
	if data, ok, err := b.LastMessage(t.Context(), bus.Results, b.Completion("s", "1")); ok || err != nil {
		t.Errorf("a completion beside a final result: %s, %v", data, err)
	}
}
