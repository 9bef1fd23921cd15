package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// The calls of one turn run at the same time. Their results are in the order of the
// calls, and failures are marked.
func TestLoopParallelCalls(t *testing.T) {
	var all sync.WaitGroup
	all.Add(3)
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(ctx context.Context, _ tools.Call, in sayArgs) *tools.Result {
		all.Done()
		all.Wait() // hangs unless all calls run at the same time
		if in.N == 2 {
			return tools.ErrorResult("two is bad")
		}
		return tools.NewToolResult(fmt.Sprint("said ", in.N))
	}))
	model := &recorder{Provider: parseScript(t, asks("say", `{"n":1}`, `{"n":2}`, `{"n":3}`), asks("nosuch", `{}`), `{"text":"done"}`)}
	o := run(t, s.agent(model, agent.Config{}), "s", "r1", "go")
	if o.Reason != agent.Done || o.Reply != "done" || o.ForUser != "done" || o.Turns != 3 || o.Tools["say"] != 3 {
		t.Errorf("outcome %+v", o)
	}
	got := model.requests[1].Messages
	if len(got) != 3 || got[2].Role != agent.RoleUser || len(got[2].Content) != 3 {
		t.Fatalf("second request %+v", got)
	}
	for i, want := range []string{`"said 1"`, `"two is bad"`, `"said 3"`} {
		b := got[2].Content[i]
		if string(b.Content) != want || b.ToolUseID != got[1].Content[i].ID || b.IsError != (i == 1) {
			t.Errorf("result %d: %+v, want %s", i, b, want)
		}
	}
	// An unknown tool gets an error result.
	if b := model.requests[2].Messages[4].Content[0]; !b.IsError || !strings.Contains(string(b.Content), `unknown tool`) {
		t.Errorf("result of an unknown tool %+v", b)
	}
}

// A tool that continues in the background may say nothing to the model.
func TestSilentStartInBackground(t *testing.T) {
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
		return tools.AsyncResult(in.Text)
	}))
	model := &recorder{Provider: parseScript(t, asks("say", `{}`, `{"text":"started"}`), `{"text":"done"}`)}
	run(t, s.agent(model, agent.Config{}), "s", "r", "go")
	got := model.requests[1].Messages[2].Content
	if got[0].ResultText() != "Task started in background" || got[1].ResultText() != "started" {
		t.Errorf("the model gets %+v", got)
	}
}

// A run reports why it stopped, and leaves a conversation in which every call has a
// result.
func TestLoopLimits(t *testing.T) {
	cause := tools.Errorf(tools.CodeCancelled, "cancelled by the user")
	for name, c := range map[string]struct {
		limits  agent.Limits
		lines   []string
		stop    func(context.Context) context.Context
		want    agent.Reason
		turns   int
		code    string
		toolRan bool
		forUser string
	}{
		"turns":     {limits: agent.Limits{MaxTurns: 2}, want: agent.TurnLimit, turns: 2, code: "turn_limit", toolRan: true},
		"budget":    {limits: agent.Limits{TokenBudget: 150}, lines: []string{`{"usage":{"input_tokens":100,"output_tokens":50},"tools":[{"name":"say"}]}`}, want: agent.TokenBudget, turns: 1, code: "token_budget"},
		"truncated": {lines: []string{`{"text":"and th","stop":"max_tokens"}`}, want: agent.Truncated, turns: 1, code: "truncated"},
		"refused":   {lines: []string{`{"text":"no, never","stop":"refusal"}`}, want: agent.Refused, turns: 1, code: "refused", forUser: "no, never"},
		"cut call":  {lines: []string{`{"tools":[{"name":"say"}],"stop":"model_context_window_exceeded"}`, `{"text":"sorry"}`}, want: agent.Done, turns: 2, code: tools.CodeToolFailed},
		"filtered":  {lines: []string{`{"tools":[{"name":"say"}],"stop":"refusal"}`, `{"text":"sorry"}`}, want: agent.Done, turns: 2, code: tools.CodeToolFailed},
		"failed":    {lines: []string{`{"expect":["missing text"]}`}, want: agent.Failed, code: agent.CodeScript},
		"deadline": {stop: func(ctx context.Context) context.Context {
			ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
			context.AfterFunc(ctx, cancel)
			return ctx
		}, want: agent.Deadline, code: tools.CodeTimeout},
		"cancelled": {stop: func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx
		}, want: agent.Cancelled, code: tools.CodeCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
				ran = true
				return tools.NewToolResult("ok")
			}))
			if c.lines == nil {
				c.lines = []string{asks("say", `{}`), asks("say", `{}`), asks("say", `{}`), asks("say", `{}`)}
			}
			ctx := t.Context()
			if c.stop != nil {
				ctx = c.stop(ctx)
			}
			a := s.agent(parseScript(t, c.lines...), agent.Config{Limits: c.limits})
			call := tools.Call{ID: "r1", Session: "s"}
			o, err := a.Run(ctx, call, agent.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			if o.Reason != c.want || o.Turns != c.turns || tools.CodeOf(o.Err()) != c.code || o.ForUser == "" || !strings.Contains(o.ForUser, c.forUser) || ran != c.toolRan {
				t.Errorf("outcome %+v (%v), tool ran %v", o, o.Err(), ran)
			}
			// A repeated run has the same outcome.
			if again := run(t, a, "s", "r1", "go"); again.Reason != o.Reason {
				t.Errorf("again: %+v", again)
			}
			// The next run gets a valid conversation.
			model := &recorder{Provider: parseScript(t, `{"text":"a"}`, `{"text":"b"}`, `{"text":"c"}`)}
			if o := run(t, s.agent(model, agent.Config{}), "s", "r2", "well?"); o.Reason != agent.Done {
				t.Errorf("the next run: %+v", o)
			}
			checkPairing(t, model.requests[0].Messages)
		})
	}
}

// checkPairing fails unless roles alternate and the next message starts with the
// results of all calls.
func checkPairing(t *testing.T, messages []agent.Message) {
	t.Helper()
	for i, m := range messages {
		want := agent.RoleUser
		if i%2 == 1 {
			want = agent.RoleAssistant
		}
		if m.Role != want || len(m.Content) == 0 {
			t.Errorf("message %d: role %s with %d blocks", i, m.Role, len(m.Content))
		}
		n := 0
		for _, b := range m.Content {
			if b.Type != agent.TypeToolUse {
				continue
			}
			if i+1 >= len(messages) || n >= len(messages[i+1].Content) || messages[i+1].Content[n].ToolUseID != b.ID {
				t.Errorf("message %d: call %s has no result at its index", i, b.ID)
			}
			n++
		}
	}
}

// If a process stops, another one continues the run. It does not ask the model again
// for a logged turn, and runs no tool twice.
func TestLoopInterrupted(t *testing.T) {
	runs := map[string]int{}
	s := newStage(t, newTool(t, "say", tools.Once, func(_ context.Context, call tools.Call, _ sayArgs) *tools.Result {
		runs[call.ID]++
		return tools.NewToolResult("ok")
	}))
	model := &recorder{Provider: parseScript(t, asks("say", `{}`), asks("say", `{}`), `{"text":"done"}`)}
	for stop := 1; ; stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		o, err := stepped{s.agent(model, agent.Config{}), func(string) {
			if steps++; steps == stop {
				cancel()
			}
		}}.Run(ctx, tools.Call{ID: "r", Session: "s"}, agent.Text("go"))
		cancel()
		if err == nil {
			if o.Reason != agent.Done || o.Reply != "done" || o.Turns != 3 {
				t.Errorf("outcome %+v", o)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	if len(runs) != 2 {
		t.Errorf("%d calls ran, want 2", len(runs))
	}
	turns := 0
	for _, e := range s.entries(t, "s") {
		if e.Kind == agent.KindAssistant {
			turns++
		}
	}
	if turns != 3 {
		t.Errorf("%d turns in the log, want 3", turns)
	}
}
