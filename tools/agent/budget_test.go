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

// ten makes a turn of a script cost ten tokens.
func ten(turn string) string {
	return strings.TrimSuffix(turn, "}") + `,"usage":{"input_tokens":6,"output_tokens":4}}`
}

// The tokens of sub-agents count against the budget of the run that started
// them, down to their own sub-agents; none gets more than its share of what is
// left.
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
		// 10 are used; two and the run share 120: 40 each. The greedy one uses
		// its 40, the other one 20 and its child 10.
		"enough": {130, "done", []int64{40, 30, 20}}, // 10+40+30+10 = 90; of 40 the spawned one is given half
		"scarce": {100, "token_budget", []int64{30, 30, 10}},
		"none":   {0, "done", []int64{200, 30, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			s := family(t, parseScript(t, append(lines, `{"for":"never"}`)...), agent.Limits{TokenBudget: c.budget}, sayTool(t))
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

// background is a Caller of jobs that are not waited for.
type background struct{}

func (background) Call(_ context.Context, call tools.Call) (tools.ResultEvent, error) {
	return tools.NewResultEvent(call, tools.AsyncResult("started")), nil
}

// What is given to sub-agents in the background is spent, because nobody knows
// when they end.
func TestSpawnedAgentsAreGivenTheirShare(t *testing.T) {
	spawn := ten(`{"tools":[{"name":"spawn","input":{"task":"x"}}]}`)
	a := agent.New(parseScript(t, spawn, spawn, ten(`{"text":"done"}`)), background{}, &agent.MemConversations{}, agent.Config{
		Tools: []tools.Definition{{Name: agent.SpawnTool}}, Limits: agent.Limits{TokenBudget: 60},
	})
	// 10 are used; the run and the first share 50. The second shares 15.
	if o := run(t, a, "s", "r", "go"); o.Reason != agent.Done || o.SubagentTokens != 25+7 {
		t.Errorf("outcome %+v", o)
	}
}

// A run keeps the limits that it began with, whoever takes it up: the calls of
// its sub-agents have them among their arguments.
func TestRunKeepsItsGrant(t *testing.T) {
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
		t.Errorf("outcome %+v, want the limit that it began with", o)
	}
}
