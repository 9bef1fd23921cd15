package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// The session and the id of the subject apply. A body that names others gets an error
// result there, and none elsewhere. A body may omit both.
func TestSubjectNamesTheCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil))
		long := tools.Token("an id with spaces")
		for _, c := range []struct {
			session, id, body string
			err               string // of the result; "-": a dead letter and no result
		}{
			{"s", "omitted", `{"args":{"text":"x"}}`, ""},
			{"s", "same", `{"id":"same","session":"s","args":{"text":"x"}}`, ""},
			{"s", long, `{"id":"an id with spaces","args":{"text":"x"}}`, ""},
			{"s", "h_forged", `{"args":{"text":"x"}}`, "hash of another id"},
			{"s", "a", `{"id":"b","args":{"text":"x"}}`, `the body has the id "b", but the subject has "a"`},
			{"s", "c", `{"session":"victim","args":{"text":"x"}}`, `the body has the session "victim"`},
			{"s", "d", `{"session":"victim","id":"z","args":{"text":"x"}}`, "the subject decides"},
			{"s", "*", `{"args":{"text":"x"}}`, "-"},
			{">", "e", `{"args":{"text":"x"}}`, "-"},
			{"s", "f", `no JSON`, "-"},
		} {
			dead := bustest.Messages(t, b, bus.Dead)
			if _, err := b.JetStream().Publish(t.Context(), b.Call("default", "echo", c.session, c.id), []byte(c.body)); err != nil {
				t.Fatal(err)
			}
			if c.err == "-" {
				bustest.WaitUntil(t, "a dead letter", func() bool { return bustest.Messages(t, b, bus.Dead) == dead+1 })
				continue
			}
			var result tools.ResultEvent
			bustest.WaitUntil(t, "a result", func() (ok bool) { result, ok = event(t, b, b.Result(c.session, c.id)); return ok })
			if c.err == "" && result.ForLLM != "x" || c.err != "" && (result.Error == nil || result.Error.Code != tools.CodeInvalidCall || !strings.Contains(result.Error.Message, c.err)) {
				t.Errorf("%s.%s with %s: %+v", c.session, c.id, c.body, result)
			}
		}
		waitEmpty(t, b)
		for _, subject := range []string{b.Result("s", "b"), b.Result("victim", "c"), b.Result("victim", "z")} {
			if _, ok := event(t, b, subject); ok {
				t.Errorf("a result on %s", subject)
			}
		}
		if n := runs.Load(); n != 3 {
			t.Errorf("%d runs", n)
		}
	})
}

// A call whose result is stored does not run again, in whatever form it is submitted and
// whatever its effect, and its submitters get the stored result.
func TestFinishedCallDoesNotRunAgain(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil), echo(t, "once", tools.Once, &runs, nil))
		for _, tool := range []string{"echo", "once"} {
			body := fmt.Sprintf(`{"id":%q,"session":"s","args":{"text":"x"}}`, tool)
			call, err := tools.DecodeCall([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			call.Tool = tool
			runs.Store(0)
			for range 2 {
				submit(t, b, short("default", tool), body)
				waitEmpty(t, b)
				submit(t, b, b.Call("default", tool, "s", tool), body)
				waitEmpty(t, b)
				if got, err := rpc.Submit(t.Context(), b, "", call); err != nil || got.ForLLM != "x" {
					t.Errorf("%+v, %v", got, err)
				}
				if got, err := rpc.Enqueue(t.Context(), b, "", call); err != nil || !got.Duplicate || got.Outcome != tools.Completed {
					t.Errorf("%+v, %v", got, err)
				}
				waitEmpty(t, b)
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("%s ran %d times", tool, n)
			}
			call.Args = json.RawMessage(`{"text":"other"}`)
			if _, err := rpc.Enqueue(t.Context(), b, "", call); tools.CodeOf(err) != tools.CodeMismatch {
				t.Errorf("other arguments: %v", err)
			}
		}
	})
}

// A once-only call that ended without a claim, because no worker had its tool, does not run
// when it is published again and a worker with the tool has started.
func TestOnceOnlyCallWithAResultNeverRuns(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		stop := start(t, b, worker.Config{})
		submit(t, b, short("default", "once"), `{"id":"a","args":{"text":"x"}}`)
		waitEmpty(t, b)
		stop()
		start(t, b, worker.Config{}, echo(t, "once", tools.Once, &runs, nil))
		submit(t, b, short("default", "once"), `{"id":"a","args":{"text":"x"}}`)
		waitEmpty(t, b)
		if result, _ := event(t, b, b.Result("default", "a")); result.Error == nil || result.Error.Code != tools.CodeUnknownTool || runs.Load() != 0 {
			t.Errorf("%d runs; result %+v", runs.Load(), result)
		}
	})
}

// A tool that lost its connection runs again, unless it is once-only: then its outcome is
// unknown.
func TestToolThatLostItsConnection(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		tool := func(name string, effect tools.Effect, runs *atomic.Int64) tools.Tool {
			tool, err := tools.NewTool(name, "loses its connection once", func(context.Context, tools.Call, struct{}) *tools.Result {
				if runs.Add(1) == 1 {
					return tools.Failure(fmt.Errorf("%w: cut", tools.ErrInterrupted))
				}
				return tools.NewToolResult("ran")
			})
			if err != nil {
				t.Fatal(err)
			}
			return tool.WithEffect(effect)
		}
		var again, once atomic.Int64
		start(t, b, worker.Config{}, tool("again", tools.Idempotent, &again), tool("once", tools.Once, &once))
		for name, want := range map[string]tools.Outcome{"again": tools.Completed, "once": tools.Unknown} {
			submit(t, b, short("default", name), fmt.Sprintf(`{"id":%q}`, name))
			bustest.WaitUntil(t, "a result", func() bool { _, ok := event(t, b, b.Result("default", name)); return ok })
			if got, _ := event(t, b, b.Result("default", name)); got.Outcome != want {
				t.Errorf("%s: %+v, want %s", name, got, want)
			}
		}
		if again.Load() != 2 || once.Load() != 1 {
			t.Errorf("%d and %d runs", again.Load(), once.Load())
		}
	})
}
