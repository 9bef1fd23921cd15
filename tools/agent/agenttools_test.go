package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// newAgentStage is a stage that also has the agent tools.
func newAgentStage(t *testing.T, model agent.Provider, limits agent.Limits, toolset ...tools.Tool) *stage {
	t.Helper()
	s := newStage(t, toolset...)
	all, err := agent.Tools(agent.ToolsConfig{
		Models: map[string]agent.Provider{"m": model}, DefaultModel: "m",
		Runner: s.runner, Conversations: &s.log, Definitions: s.registry.Definitions,
		Config: agent.Config{Limits: limits},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.registry.Register(all...); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) call(t *testing.T, id, tool, args string) tools.ResultEvent {
	t.Helper()
	e, err := s.runner.Call(t.Context(), tools.Call{ID: id, Session: "s", Tool: tool, Args: json.RawMessage(args)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func sayTool(t *testing.T) tools.Tool {
	return newTool(t, "say", tools.Idempotent, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
		return tools.NewToolResult("said " + in.Text)
	})
}

func TestSubagentTool(t *testing.T) {
	long := strings.Repeat("ä", 600)
	model := &recorder{Provider: parseScript(t,
		`{"text":"delegating","tools":[{"name":"subagent","input":{"task":"child: count","label":"counting"}}]}`,
		`{"expect":["Turns: 2","Tools used: say 1x","`+long+`"],"text":"it is counted"}`,
		`{"for":"^child: count"}`,
		asks("say", `{"text":"one"}`),
		`{"expect":["said one"],"text":"`+long+`"}`)}
	s := newAgentStage(t, model, agent.Limits{}, sayTool(t))
	e := s.call(t, "r", "agent", `{"prompt":"go"}`)
	if e.IsError || e.ForLLM != "it is counted" {
		t.Fatalf("result %+v", e)
	}
	// The user gets the reply, and as output of the tool a short summary of the report.
	output := agent.OutputOf(s.entries(t, "s"), "r")
	if want := strings.Repeat("ä", 500) + "..."; e.ForUser != e.ForLLM || len(output) != 1 || output[0].ForUser != want {
		t.Errorf("the user gets %q after %+v", e.ForUser, output)
	}
	// The child has its own session.
	sub := agent.SubagentSession(tools.Call{ID: "r-t1-0", Session: "s"})
	if n := len(s.entries(t, tools.Token(sub))); n != 5 {
		t.Errorf("the child's conversation has %d entries, want 5", n)
	}
	for _, m := range model.requests[1].Messages {
		if strings.Contains(fmt.Sprint(m), "delegating") {
			t.Error("the child sees its parent's conversation")
		}
	}
}

// unreadable is a log that cannot be read once after the sub-agent has ended.
type unreadable struct {
	*memConversations
	failed atomic.Bool
}

func (u *unreadable) Read(ctx context.Context, session string, after uint64) ([][]byte, uint64, error) {
	entries, last, err := u.memConversations.Read(ctx, session, after)
	if n := len(entries); session != "s" && n > 0 && strings.Contains(string(entries[n-1]), `"kind":"end"`) && u.failed.CompareAndSwap(false, true) {
		return nil, 0, errors.New("the bus is away")
	}
	return entries, last, err
}

// newUnreadableStage is newAgentStage with such a log.
func newUnreadableStage(t *testing.T, script ...string) (*stage, *unreadable) {
	t.Helper()
	s := newStage(t)
	log := &unreadable{memConversations: &s.log}
	all, err := agent.Tools(agent.ToolsConfig{
		Models: map[string]agent.Provider{"m": parseScript(t, script...)}, DefaultModel: "m",
		Runner: s.runner, Conversations: log, Definitions: s.registry.Definitions,
	})
	if err == nil {
		err = s.registry.Register(all...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// What a sub-agent used counts for the run that made it, also if its conversation cannot be read at first.
func TestTokensOfASubagentAreReadAgain(t *testing.T) {
	s, log := newUnreadableStage(t, asks("subagent", `{"task":"child"}`), `{"text":"done"}`, `{"for":"^child"}`, `{"text":"born","usage":{"input_tokens":700}}`)
	if e := s.call(t, "r", "agent", `{"prompt":"go"}`); e.IsError {
		t.Fatalf("result %+v", e)
	}
	entries := s.entries(t, "s")
	if end := entries[len(entries)-1].End; !log.failed.Load() || end == nil || end.SubagentTokens < 700 {
		t.Errorf("the run ended with %+v", end)
	}
}

// The user gets the whole report of a task in the background, also if the conversation of its sub-agent cannot be read at first.
func TestReportOfASpawnedSubagentIsReadAgain(t *testing.T) {
	long := strings.Repeat("!", 600)
	s, log := newUnreadableStage(t, `{"text":"never"}`, `{"for":"^child"}`, `{"text":"`+long+`"}`)
	done := make(chan *tools.Result, 1)
	call := tools.Call{ID: "p", Session: "s", Tool: "spawn", Args: json.RawMessage(`{"task":"child"}`)}
	s.registry.Run(t.Context(), call, func(_ context.Context, res *tools.Result) { done <- res })
	if report := <-done; !log.failed.Load() || report.ForUser != long {
		t.Errorf("report %+v", report)
	}
}

// toolNames returns the tools of the nth request.
func (r *recorder) toolNames(n int) []string {
	var names []string
	for _, def := range r.requests[n].Tools {
		names = append(names, def.Name)
	}
	return names
}

// A sub-agent has only the tools and limits of its call, whatever the model writes.
func TestSubagentLimits(t *testing.T) {
	model := &recorder{Provider: parseScript(t,
		`{"tools":[{"name":"subagent","input":{"task":"child","tools":["say","subagent"],"max_turns":1000,"grant":{"depth":-9,"max_turns":1000,"tools":["secret"]},"GRANT":{"depth":-9}}}]}`,
		`{"text":"done"}`,
		`{"for":"^child"}`,
		`{"tools":[{"name":"secret"},{"name":"subagent","input":{"task":"grandchild"}}]}`,
		asks("say", `{}`), asks("say", `{}`), asks("say", `{}`),
		`{"for":"^grandchild"}`,
		`{"tools":[{"name":"subagent","input":{"task":"too deep"}}]}`,
		`{"text":"no subagent"}`)}
	secret := false
	s := newAgentStage(t, model, agent.Limits{MaxTurns: 3}, sayTool(t), newTool(t, "secret", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		secret = true
		return tools.NewToolResult("")
	}))
	if e := s.call(t, "r", "agent", `{"prompt":"go","tools":["say","subagent"]}`); e.IsError {
		t.Fatalf("result %+v", e)
	}
	if secret {
		t.Error("a tool ran that the sub-agent does not have")
	}
	if got := model.toolNames(1); !slices.Equal(got, []string{"say", "subagent"}) {
		t.Errorf("the child has %q", got)
	}
	for _, def := range model.requests[0].Tools {
		if def.Name == "subagent" && def.Parameters.Properties["grant"] != nil {
			t.Error("the model sees the limits")
		}
	}
	child := s.entries(t, tools.Token(agent.SubagentSession(tools.Call{ID: "r-t1-0", Session: "s"})))
	if end := child[len(child)-1].End; end == nil || end.Reason != agent.TurnLimit || end.Turns != 3 {
		t.Errorf("the child ended with %+v", end)
	}
	// The grandchild has the maximum depth.
	if got := model.toolNames(2); !slices.Equal(got, []string{"say"}) {
		t.Errorf("the grandchild has %q", got)
	}
}

// A run starts so many sub-agents; one that did not start does not count.
func TestMaxSubagents(t *testing.T) {
	model := parseScript(t,
		`{"tools":[{"name":"subagent","input":{"task":"child"}}],"stop":"max_tokens"}`,
		`{"tools":[{"name":"subagent","input":{"task":"child"}},{"name":"subagent","input":{"task":"child"}}]}`,
		`{"tools":[{"name":"spawn","input":{"task":"child"}},{"name":"subagent","input":{"task":"child"}}]}`,
		`{"text":"done"}`,
		`{"for":"^child"}`, `{"text":"born"}`)
	s := newAgentStage(t, model, agent.Limits{MaxChildren: 3})
	s.call(t, "r", "agent", `{"prompt":"go"}`)
	var failed []string
	for _, e := range s.entries(t, "s") {
		for _, a := range e.Results {
			if a.IsError {
				failed = append(failed, a.Call)
			}
		}
	}
	if !slices.Equal(failed, []string{"r-t1-0", "r-t3-1"}) {
		t.Errorf("rejected calls %q, want only the one of the cut turn, and the fourth after it", failed)
	}
}

// spawn answers immediately and reports later. A repeated spawn call makes the
// same subagent call.
func TestSpawnTool(t *testing.T) {
	s := newAgentStage(t, parseScript(t, `{"text":"never"}`, `{"for":"^child"}`, `{"delay":"10ms","text":"the report`+strings.Repeat("!", 600)+`"}`), agent.Limits{})
	for range 2 {
		done := make(chan *tools.Result, 1)
		call := tools.Call{ID: "p", Session: "s", Tool: "spawn", Args: json.RawMessage(`{"task":"child","label":"x"}`)}
		res := s.registry.Run(t.Context(), call, func(_ context.Context, res *tools.Result) { done <- res })
		if !res.Async || res.IsError || res.ForLLM != "Subagent spawned, will report back" || res.ForUser != "" {
			t.Errorf("answer %+v", res)
		}
		if report := <-done; report.ForUser != "the report"+strings.Repeat("!", 600) || !strings.Contains(report.ForLLM, "Turns: 1") || report.IsError {
			t.Errorf("report %+v", report)
		}
	}
	child := tools.Call{ID: tools.Token("p/subagent"), Session: "s"}
	if n := len(s.entries(t, tools.Token(agent.SubagentSession(child)))); n != 3 {
		t.Errorf("the child's conversation has %d entries, want 3", n)
	}
}

func TestAgentToolErrors(t *testing.T) {
	s := newAgentStage(t, parseScript(t, `{"text":"hi"}`), agent.Limits{}, sayTool(t))
	for name, c := range map[string]struct{ tool, args, want string }{
		"no prompt":     {"agent", `{}`, "prompt"},
		"blank prompt":  {"agent", `{"prompt":" "}`, "prompt is empty"},
		"unknown model": {"agent", `{"prompt":"x","model":"gpt"}`, `unknown model "gpt"`},
		"unknown tool":  {"agent", `{"prompt":"x","tools":["nosuch"]}`, `cannot have the tool "nosuch"`},
		"itself":        {"agent", `{"prompt":"x","tools":["agent"]}`, `cannot have the tool "agent"`},
		"no task":       {"subagent", `{"label":"x"}`, "task"},
		"blank task":    {"subagent", `{"task":""}`, "task is empty"},
		"blank spawn":   {"spawn", `{"task":""}`, "task is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			res := s.registry.Run(t.Context(), tools.Call{ID: name, Session: "s", Tool: c.tool, Args: json.RawMessage(c.args)}, func(context.Context, *tools.Result) {})
			if !res.IsError || !strings.Contains(res.ForLLM, c.want) {
				t.Errorf("result %+v, want %q", res, c.want)
			}
		})
	}
}

// hangingRunner returns no result.
type hangingRunner struct{}

func (hangingRunner) Call(ctx context.Context, _ tools.Call) (tools.ResultEvent, error) {
	<-ctx.Done()
	return tools.ResultEvent{}, ctx.Err()
}

// A cancelled spawn reports the cause, once.
func TestCancelledSpawn(t *testing.T) {
	all, err := agent.Tools(agent.ToolsConfig{
		Models: map[string]agent.Provider{"m": turns{}}, DefaultModel: "m", Runner: hangingRunner{}, Conversations: &memConversations{},
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(all...); err != nil {
		t.Fatal(err)
	}
	call := tools.Call{ID: "p", Session: "s", Tool: agent.SpawnTool, Args: json.RawMessage(`{"task":"child"}`)}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tools.Errorf(tools.CodeCancelled, "the call was cancelled"))
	done := make(chan *tools.Result, 1)
	registry.Run(ctx, call, func(_ context.Context, res *tools.Result) { done <- res })
	if res := <-done; res.Err == nil || res.Err.Error() != "the call was cancelled" {
		t.Errorf("result %+v", res)
	}
}

// The user sees what a refusing sub-agent said.
func TestRefusedSubagent(t *testing.T) {
	s := newAgentStage(t, parseScript(t, `{"text":"I will not do that.","stop":"refusal"}`), agent.Limits{})
	e := s.call(t, "r", "subagent", `{"task":"child","label":"x"}`)
	if !e.IsError || !strings.Contains(e.ForUser, "The task x was not completed") || !strings.HasSuffix(e.ForUser, "\nI will not do that.") {
		t.Errorf("result %+v", e)
	}
	if e := s.call(t, "r2", "agent", `{"prompt":"go"}`); !e.IsError || !strings.HasPrefix(e.ForUser, "I will not do that.\n") {
		t.Errorf("result %+v", e)
	}
}

// A model may call a tool without an object: the schema of the tool refuses that, and the run goes on.
func TestSubagentWithoutArguments(t *testing.T) {
	model := parseScript(t,
		`{"text":"delegating","tools":[{"name":"subagent","input":null},{"name":"spawn","input":null}]}`,
		`{"text":"nobody did it"}`)
	e := newAgentStage(t, model, agent.Limits{}).call(t, "r", "agent", `{"prompt":"go"}`)
	if e.IsError || e.ForLLM != "nobody did it" {
		t.Errorf("result: %+v", e)
	}
}
