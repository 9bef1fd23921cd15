package rpc_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// simpleTool is a tool with a given effect.
type simpleTool struct {
	name   string
	effect tools.Effect
}

func (s simpleTool) Definition() tools.Definition {
	return tools.Definition{Name: s.name, Description: "returns a result", Effect: s.effect}
}
func (simpleTool) Execute(context.Context, tools.Call) *tools.Result {
	return &tools.Result{ForLLM: "it ran", UserContent: tools.UserContent{ForUser: "it ran for you"}}
}

// simpleAsync is a simpleTool that runs in the background.
type simpleAsync struct{ simpleTool }

func (simpleAsync) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go callback(ctx, tools.NewToolResult("it ran"))
	return tools.AsyncResult("started")
}

// A call whose workers all die gets a result with the number of its dead letter. A
// retry removes the result and runs the call, except for a once-only call that may
// have run.
func TestDeadCallHasResultAndCanBeRetried(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	calls := map[string]struct {
		async     bool
		first     tools.Outcome // of the first final result
		retriable bool
	}{
		"plain":       {false, tools.Failed, true},
		"job":         {false, tools.Failed, true}, // of a schedule, so the failure and the result are reported
		"fresh":       {false, tools.Failed, true}, // no worker started it
		"begun":       {false, tools.Unknown, false},
		"async":       {true, tools.Failed, true},
		"async_begun": {true, tools.Unknown, false},
	}
	const begun = `{"id":"async","session":"s","outcome":"async","for_user":"it has begun"}`
	for tool := range calls {
		if strings.HasSuffix(tool, "begun") {
			publish(t, b, bus.Message{Subject: b.Claim("s", tool), Body: []byte(`{"worker":"dead","nonce":"n"}`)})
		}
		if tool == "async" {
			publish(t, b, bus.Message{Subject: b.Result("s", tool), Body: []byte(begun)})
		}
		// Three workers died while they ran it. The start of the first one is not recorded.
		for range 2 {
			if err := task.CountStart(t.Context(), b, tools.CallKey{Session: "s", ID: tool}, 1); err != nil {
				t.Fatal(err)
			}
		}
		publish(t, b, bus.Message{Subject: b.Call("default", tool, "s", tool), Body: fmt.Appendf(nil, `{"action":%q}`, map[string]string{"job": bus.Cron}[tool])})
	}
	bustest.Fail(t, b, "default", 3)
	workertest.Start(t, b, memOffloader(), worker.Config{MaxAttempts: 3, AskTimeout: 50 * time.Millisecond},
		simpleTool{"plain", tools.Keyed}, simpleTool{"fresh", tools.Once}, simpleTool{"begun", tools.Once}, simpleTool{"job", tools.Keyed},
		simpleAsync{simpleTool{"async", tools.Keyed}}, simpleAsync{simpleTool{"async_begun", tools.Once}})

	for tool, want := range calls {
		t.Run(tool, func(t *testing.T) {
			call := tools.Call{ID: tool, Session: "s", Tool: tool}
			got := ends(t, b, call, want.async)
			letter := letterOf(t, b, tool)
			if got.Outcome != want.first || !got.IsError || !strings.Contains(got.ForLLM, "dead letter "+letter) {
				t.Errorf("the result of the dead letter: %+v; want %s, and the letter %s", got, want.first, letter)
			}
			if want.first == tools.Failed && !strings.Contains(got.ForLLM, "delivered 3 times") {
				t.Errorf("the result does not contain the number of attempts: %s", got.ForLLM)
			}

			err := retry(t, b, tool)
			if !want.retriable {
				if err == nil || !strings.Contains(err.Error(), "once-only and may have run") || letterOf(t, b, tool) == "" {
					t.Errorf("retried: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got = ends(t, b, call, want.async) // the old result is removed, so this waits for the new one
			if tool == "job" {
				bustest.WaitUntil(t, "the report of the second result", func() bool {
					report, err := b.Last(t.Context(), bus.Results, b.Report("s", tool))
					return err == nil && strings.Contains(string(report.Body), "it ran for you")
				})
			}
			if report, err := b.Last(t.Context(), bus.Results, b.Report("s", tool)); tool == "async" && (err != nil || string(report.Body) != begun) {
				t.Errorf("the text of the first result is not reported: %q, %v", report.Body, err)
			}
			if got.ForLLM != "it ran" || letterOf(t, b, tool) != "" {
				t.Errorf("after the retry: %+v, letter %q", got, letterOf(t, b, tool))
			}
			if r, err := task.ReadRecord(t.Context(), b, tools.CallKey{Session: "s", ID: tool}); r.Starts > 1 || err != nil {
				t.Errorf("starts before the retry count: %d, %v", r.Starts, err)
			}
		})
	}
}

// A worker that gave up on a call may be slow to say so. If that comes after somebody has retried the dead letter, the
// retried call runs all the same: one such process of seed 5440 of the simulator had a link that was mute for a minute.
func TestLateGiveUpEndsNoRetriedCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		say := map[string]func(){} // what the worker said, by tool
		runs := func(name string, effect tools.Effect) tools.Tool {
			return tools.MustTool(name, "returns a result", func(context.Context, tools.Call, struct{}) *tools.Result {
				if name == "running" {
					say[name]()
				}
				return tools.NewToolResult("it ran")
			}).WithEffect(effect)
		}
		background := simpleAsync{simpleTool{"background", tools.Keyed}}
		toolset := []tools.Tool{runs("waiting", tools.Keyed), runs("running", tools.Keyed), runs("once", tools.Once), background}
		start := func() (stop func()) {
			return workertest.Start(t, b, memOffloader(), worker.Config{MaxAttempts: 3, AskTimeout: 50 * time.Millisecond}, toolset...)
		}
		for _, tool := range toolset {
			name := tool.Definition().Name
			for range 2 { // three workers died while they ran it; the start of the first one is not recorded
				if err := task.CountStart(t.Context(), b, tools.CallKey{Session: "s", ID: name}, 1); err != nil {
					t.Fatal(err)
				}
			}
			publish(t, b, bus.Message{Subject: b.Call("default", name, "s", name), Body: []byte("{}")})
		}
		bustest.Fail(t, b, "default", 3)
		stop := start()
		for _, tool := range toolset {
			name := tool.Definition().Name
			if got := ends(t, b, tools.Call{ID: name, Session: "s", Tool: name}, name == "background"); got.Error == nil || got.Error.Code != tools.CodeGivenUp {
				t.Fatalf("%s: %+v", name, got)
			}
		}
		stop()
		for _, tool := range toolset {
			name := tool.Definition().Name
			subject := b.Result("s", name)
			if name == "background" {
				subject = b.Completion("s", name)
			}
			var said []bus.Message
			for _, subject := range []string{subject, b.Claim("s", name)} {
				if m, err := b.Last(t.Context(), bus.Results, subject); err != nil {
					t.Fatal(err)
				} else if m.Sequence > 0 {
					said = append(said, bus.Message{Subject: subject, Body: m.Body})
				}
			}
			if err := retry(t, b, name); err != nil {
				t.Fatal(err)
			}
			say[name] = func() {
				for _, m := range said {
					publish(t, b, m)
				}
			}
			if name != "running" {
				say[name]()
			}
		}
		start()
		bustest.WaitUntil(t, "the calls to be acknowledged", func() bool { return bustest.Waiting(t, b) == 0 })
		for _, tool := range toolset {
			name := tool.Definition().Name
			if got := ends(t, b, tools.Call{ID: name, Session: "s", Tool: name}, name == "background"); got.ForLLM != "it ran" {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

// A process may die after it published the message of a letter again, so that the letter stays. If the call fails again, which
// gives it another letter, a retry of the first one at once would publish nothing: it must not remove the result.
func TestRetryOfTheLetterBefore(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		call := tools.Call{ID: "c", Session: "s", Tool: "plain"}
		die := func() (stop func()) {
			for range 2 {
				if err := task.CountStart(t.Context(), b, tools.CallKey{Session: "s", ID: "c"}, 1); err != nil {
					t.Fatal(err)
				}
			}
			bustest.Fail(t, b, "default", 3)
			stop = workertest.Start(t, b, memOffloader(), worker.Config{MaxAttempts: 3, AskTimeout: 50 * time.Millisecond}, simpleTool{"plain", tools.Keyed})
			if got := ends(t, b, call, false); got.Error == nil || got.Error.Code != tools.CodeGivenUp {
				t.Fatalf("%+v", got)
			}
			return stop
		}
		publish(t, b, bus.Message{Subject: b.Call("default", "plain", "s", "c"), Body: []byte("{}")})
		die()()
		first := letters(t, b, "plain")[0]
		if err := retryLetter(t, b, first); err != nil {
			t.Fatal(err)
		}
		die()
		err := retryLetter(t, b, first) // before the worker removes the message
		time.Sleep(time.Minute)
		if _, ok, readErr := task.ReadResult(t.Context(), b, b.Result("s", "c")); readErr != nil || !ok {
			t.Errorf("the call has no result after the retry of the first letter: %v, %v", err, readErr)
		}
	})
}

// A dead letter of a call whose id belongs to another one can be retried, and is rejected again: it removes nothing of
// the other call, which a worker gave up on.
func TestRetryOfAnotherCallRemovesNothing(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		key := tools.CallKey{Session: "s", ID: "keep"}
		for range 2 {
			if err := task.CountStart(t.Context(), b, key, 1); err != nil {
				t.Fatal(err)
			}
		}
		submit := func(args string) {
			publish(t, b, bus.Message{Subject: b.Call("default", "keep", "s", "keep"), Body: fmt.Appendf(nil, `{"args":%s}`, args)})
		}
		submit(`{"x":1}`)
		bustest.Fail(t, b, "default", 3)
		workertest.Start(t, b, memOffloader(), worker.Config{MaxAttempts: 3, AskTimeout: 50 * time.Millisecond}, simpleTool{"keep", tools.Keyed})
		acknowledged := func() {
			bustest.WaitUntil(t, "the call to be acknowledged", func() bool { return bustest.Waiting(t, b) == 0 })
		}
		acknowledged()
		submit(`{"x":2}`)
		acknowledged()
		for _, letter := range letters(t, b, "keep") {
			if letter.Code == tools.CodeMismatch {
				if err := retryLetter(t, b, letter); err != nil {
					t.Fatal(err)
				}
			}
		}
		acknowledged()
		stored, err := task.ReadResults(t.Context(), b, "s", "keep")
		if err != nil || len(stored) != 1 || stored[0].Error == nil || stored[0].Error.Code != tools.CodeGivenUp || stored[0].Args != `{"x":1}` {
			t.Errorf("the result of the first call: %+v, %v", stored, err)
		}
		if left := letters(t, b, "keep"); len(left) != 2 {
			t.Errorf("%d dead letters, want that of each call", len(left))
		}
	})
}

// No worker has a call that was retried. So its worker does not ask the others for it, which
// would take a slot for as long as they may answer, and counts no start of it.
func TestRetriedCallsWaitForNoWorker(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	const calls = 3
	for i := range calls {
		id := strconv.Itoa(i)
		call := tools.Call{ID: id, Session: "s", Tool: "plain"}
		body, err := bus.Encode(call)
		if err != nil {
			t.Fatal(err)
		}
		letter, err := bus.Encode(dead.Letter{Kind: bus.DeadCall, Name: "plain", Subject: b.Call("default", "plain", "s", id), ID: id, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, b, bus.Message{Subject: b.Dead(bus.DeadCall, "plain"), Body: letter})
	}
	for _, letter := range letters(t, b, "plain") {
		if err := retryLetter(t, b, letter); err != nil {
			t.Fatal(err)
		}
	}
	workertest.Start(t, b, memOffloader(), worker.Config{Slots: 1, AskTimeout: time.Hour}, simpleTool{"plain", tools.Keyed})
	for i := range calls {
		id := strconv.Itoa(i)
		if got := ends(t, b, tools.Call{ID: id, Session: "s", Tool: "plain"}, false); got.ForLLM != "it ran" {
			t.Errorf("result %+v", got)
		}
		if r, err := task.ReadRecord(t.Context(), b, tools.CallKey{Session: "s", ID: id}); r.Starts != 0 || err != nil {
			t.Errorf("%d starts are recorded, %v", r.Starts, err)
		}
	}
}

func publish(t *testing.T, b *bus.Bus, m bus.Message) {
	t.Helper()
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the final result of a call, as a client that submits it.
func ends(t *testing.T, b *bus.Bus, call tools.Call, async bool) tools.ResultEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Timeout)
	defer cancel()
	event, err := rpc.Submit(ctx, b, "default", call)
	if err == nil && (event.Outcome == tools.Async) != async {
		t.Fatalf("result %+v", event)
	}
	if err == nil && async {
		event, err = rpc.AwaitCompletion(ctx, b, call)
	}
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func letters(t *testing.T, b *bus.Bus, tool string) (found []dead.Stored) {
	t.Helper()
	page, err := dead.ListPage(t.Context(), b, dead.Query{Kind: bus.DeadCall})
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range page.Letters {
		if letter.Name == tool {
			found = append(found, letter)
		}
	}
	return found
}

// letterOf returns the number of a tool's dead letter, or "".
func letterOf(t *testing.T, b *bus.Bus, tool string) string {
	t.Helper()
	for _, letter := range letters(t, b, tool) {
		return strconv.FormatUint(letter.Number, 10)
	}
	return ""
}

func retry(t *testing.T, b *bus.Bus, tool string) error {
	t.Helper()
	found := letters(t, b, tool)
	if len(found) != 1 {
		t.Fatalf("dead letters %+v", found)
	}
	return retryLetter(t, b, found[0])
}

func retryLetter(t *testing.T, b *bus.Bus, letter dead.Stored) (err error) {
	t.Helper()
	rpc.ChangeLetters(t.Context(), b, []dead.Stored{letter}, true, func(_ dead.Stored, failed error) { err = failed })
	return err
}

// A forged letter, whose subject is not that of a call, changes nothing of the call that its
// message names.
func TestRetryOfForgedLetterChangesNothing(t *testing.T) {
	b := bustest.New(t)
	if err := task.CountStart(t.Context(), b, tools.CallKey{Session: "s", ID: "victim"}, 1); err != nil {
		t.Fatal(err)
	}
	letter := dead.Stored{Number: 1, Letter: dead.Letter{
		Kind: bus.DeadCall, Name: "default", Subject: b.NotifyAny("phone"), Body: []byte(`{"id":"victim","session":"s"}`),
	}}
	if err := retryLetter(t, b, letter); err == nil || !strings.Contains(err.Error(), "do not match its subject") {
		t.Errorf("retry: %v", err)
	}
	if r, err := task.ReadRecord(t.Context(), b, tools.CallKey{Session: "s", ID: "victim"}); err != nil || r.Starts != 1 {
		t.Errorf("the call has %d recorded starts, %v; want 1", r.Starts, err)
	}
}

// Between two groups of letters, the other calls of the queue have time to run.
func TestRetriedLettersLeaveTimeForOthers(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{})
		for _, retry := range []bool{true, false} {
			letters, done, began := make([]dead.Stored, 501), 0, time.Now()
			if !retry {
				letters = letters[:1]
			}
			rpc.ChangeLetters(t.Context(), b, letters, retry, func(dead.Stored, error) { done++ })
			if took := time.Since(began); done != len(letters) || retry != (took >= 500*time.Millisecond) {
				t.Errorf("retry %t: %d letters took %s", retry, done, took)
			}
		}
	})
}
