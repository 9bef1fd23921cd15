package agents

import (
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// A sub-agent has a name that a person can read, and which commands take. What it used is part of
// what its parent used, in lists and in the usage by session.
func TestSubagentsInLists(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	const usage = `,"usage":{"input_tokens":10,"output_tokens":1}}`
	model, err := provider.ParseScript([]byte(strings.Join([]string{
		`{"for":"^start"}`,
		`{"tools":[{"name":"subagent","input":{"task":"child one"}}]` + usage,
		`{"tools":[{"name":"spawn","input":{"task":"child two"}},{"name":"subagent","input":{"task":"child three"}}]` + usage,
		`{"text":"started"` + usage,
		`{"text":"and again"` + usage,
		`{"for":"^child one"}`, `{"tools":[{"name":"subagent","input":{"task":"grandchild"}}]` + usage, `{"text":"one"` + usage,
		`{"for":"^grandchild"}`, `{"text":"deep"` + usage,
		`{"for":"^child two"}`, `{"text":"two"` + usage,
		`{"for":"^child three"}`, `{"text":"three"` + usage,
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	startModel(t, b, model, worker.Config{})
	if event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("chat", "q1", "start")); err != nil || event.ForLLM != "started" {
		t.Fatalf("%+v, %v", event, err)
	}
	titles := map[string]string{"chat": "start", "chat/1": "child one", "chat/1/1": "grandchild", "chat/2": "child two", "chat/3": "child three"}
	inputs := map[string]int64{"chat": 80, "chat/1": 30, "chat/1/1": 10, "chat/2": 10, "chat/3": 10}
	for _, limit := range []int{0, 50} {
		var got []Conversation
		bustest.WaitUntil(t, "the end of the conversations", func() bool {
			page, err := list(t.Context(), b, ListQuery{Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			got = page.Sessions
			return !slices.ContainsFunc(got, func(c Conversation) bool {
				return c.State != "done" || c.Name == "chat" && c.Turns < 8 // the last answers to the end of child two
			}) && len(got) == len(titles)
		})
		for _, c := range got {
			if c.Title != titles[c.Name] || c.Input != inputs[c.Name] {
				t.Errorf("%s used %d tokens for %q, want %d and %q", c.Name, c.Input, c.Title, inputs[c.Name], titles[c.Name])
			}
			if name, err := NameOf(t.Context(), b, c.Name); err != nil || tools.TokenOf(name) != c.Session {
				t.Errorf("%s is %q, %v; want the session %s", c.Name, name, err, c.Session)
			}
		}
	}
	spent, err := readUsage(t.Context(), b, UsageRequest{By: BySession})
	used := spent.Used
	if err != nil || len(used) != 1 || used[0].Of != "chat" || used[0].Input != 80 || used[0].Turns != 8 {
		t.Errorf("by session: %+v, %v", used, err)
	}
	for _, name := range []string{"chat/4", "chat/0", "chat/x", "none/1"} {
		if got, err := NameOf(t.Context(), b, name); err != nil || got != name {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}
