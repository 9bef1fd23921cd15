package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// ten returns a turn of a script that uses ten tokens.
func ten(turn string) string {
	return strings.TrimSuffix(turn, "}") + `,"usage":{"input_tokens":6,"output_tokens":4}}`
}

// The tokens of sub-agents, and of their own sub-agents, count against the budget
// of the run. No sub-agent gets more than its share of the rest.
func TestSubagentsShareTheBudget(t *testing.T) {
	child := func(name string) string { return `{"name":"subagent","input":{"task":"` + name + `"}}` }
	lines := []string{
		ten(`{"tools":[` + child("greedy") + `,` + child("parent") + `]}`),
		ten(`{"tools":[{"name":"spawn","input":{"task":"greedy"}}]}`),
		ten(`{"tools":[{"name":"say"}]}`),
		ten(`{"text":"done"}`),
		`{"for":"^greedy"}`,
	}
	for range 20 {
		lines = append(lines, ten(`{"tools":[{"name":"say"}]}`))
	}
	lines = append(lines, `{"for":"^parent"}`, ten(`{"tools":[`+child("modest")+`]}`), ten(`{"text":"late"}`), `{"for":"^modest"}`, ten(`{"text":"short"}`))
	for name, c := range map[string]struct {
		budget int64
		reason string
		spent  []int64
	}{
		// The run used 10, so it and two sub-agents get 40 each. One sub-agent uses
		// 40, the other one 20 and its child 10.
		"enough": {130, "done", []int64{40, 30, 20}}, // 10+40+30+10 = 90; the spawned one gets half of 40
		"scarce": {100, "token_budget", []int64{30, 30, 10}},
		"none":   {0, "done", []int64{200, 30, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAgentStage(t, parseScript(t, append(lines, `{"for":"never"}`)...), agent.Limits{TokenBudget: c.budget}, sayTool(t))
			e := s.call(t, "r", "agent", `{"prompt":"go"}`)
			entries := s.entries(t, "s")
			var spent []int64
			for _, entry := range entries {
				for _, a := range entry.Results {
					if a.Tool != "say" {
						spent = append(spent, a.SubagentTokens)
					}
				}
			}
			end := entries[len(entries)-1].End
			if end == nil || string(end.Reason) != c.reason {
				t.Errorf("result %q, end %+v; want %s", e.ForLLM, end, c.reason)
			}
			if len(spent) != len(c.spent) {
				t.Fatalf("spent %v, want %v", spent, c.spent)
			}
			for i := range spent {
				if spent[i] != c.spent[i] {
					t.Errorf("spent %v, want %v", spent, c.spent)
				}
			}
		})
	}
}

// asyncRunner answers each call as an async one.
type asyncRunner struct{}

func (asyncRunner) Call(_ context.Context, call tools.Call) (tools.ResultEvent, error) {
	return tools.NewResultEvent(call, tools.AsyncResult("started")), nil
}

// The whole share of a background sub-agent counts, because the run does not wait
// for its end.
func TestSpawnedAgentsBudget(t *testing.T) {
	spawn := ten(`{"tools":[{"name":"spawn","input":{"task":"x"}}]}`)
	a := agent.New(parseScript(t, spawn, spawn, ten(`{"text":"done"}`)), asyncRunner{}, &memConversations{}, agent.Config{
		Tools: []tools.Definition{{Name: agent.SpawnTool}}, Limits: agent.Limits{TokenBudget: 60},
	})
	// The run used 10, so it and the first sub-agent get 25 each. The run used 20 and
	// 25 went to the first sub-agent, so it and the second one get 7 each.
	if o := run(t, a, "s", "r", "go"); o.Reason != agent.Done || o.SubagentTokens != 25+7 {
		t.Errorf("outcome %+v", o)
	}
}

// A run keeps the limits of its start if another worker continues it, because the
// arguments of its subagent calls contain them.
func TestRunKeepsItsLimits(t *testing.T) {
	s := newStage(t, sayTool(t))
	model := parseScript(t, asks("say", `{"text":"a"}`), asks("say", `{"text":"b"}`), `{"text":"done"}`)
	user := agent.Entry{Kind: agent.KindUser, Run: "q", At: time.Now(), Limits: &agent.Limits{MaxTurns: 1},
		Message: &agent.Message{Role: agent.RoleUser, Content: []agent.Block{agent.Text("go")}}}
	data, err := json.Marshal(user)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.Append(t.Context(), "s2", 0, data); err != nil {
		t.Fatal(err)
	}
	if o := run(t, s.agent(model, agent.Config{}), "s2", "q", "go"); o.Reason != agent.TurnLimit || o.Turns != 1 {
		t.Errorf("outcome %+v, want the limit of the first entry", o)
	}
}
