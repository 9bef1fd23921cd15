package agent_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// The state of a call follows from the log of its run and from those of the
// sub-agents that it waits for. Before its run starts, it follows from the other
// runs of the session.
func TestCheckpoint(t *testing.T) {
	s := newStage(t)
	all, err := agent.Tools(agent.ToolsConfig{
		Models: map[string]agent.Provider{"m": turns{}}, DefaultModel: "m",
		Runner: s.runner, Conversations: &s.log, Definitions: s.registry.Definitions,
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(all...); err != nil {
		t.Fatal(err)
	}
	started := time.Now().UTC().Truncate(time.Second)
	clock := started
	write := func(session string, entries ...agent.Entry) {
		for _, e := range entries {
			clock = clock.Add(time.Second)
			e.At = clock
			data, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			_, last, _ := s.log.Read(context.Background(), session, 0)
			if _, err := s.log.Append(context.Background(), session, last, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	sub := tools.Token(agent.SubagentSession(tools.Call{ID: "r-t2-0", Session: "s"}))
	user := func(run string) agent.Entry { return agent.Entry{Kind: agent.KindUser, Run: run} }
	resumed := func(run string) agent.Entry { return agent.Entry{Kind: agent.KindResumed, Run: run} }
	says := func(run string, blocks ...agent.Block) agent.Entry {
		return agent.Entry{Kind: agent.KindAssistant, Run: run, Message: &agent.Message{Role: agent.RoleAssistant, Content: blocks}}
	}
	for _, c := range []struct {
		name    string
		session string
		entries []agent.Entry
		tool    string
		id      string
		want    tools.Checkpoint
	}{
		{"nothing happened", "s", nil, "agent", "r", tools.Checkpoint{}},
		{"waits for another run", "s", []agent.Entry{user("q"), says("q", agent.Text("hi")), resumed("q"), {Kind: agent.KindEnd, Run: "q"}}, "agent", "r", tools.Checkpoint{Steps: 2}},
		{"started", "s", []agent.Entry{user("r"), resumed("r"), {Kind: agent.KindOffloaded, Run: "r"}}, "agent", "r", tools.Checkpoint{Restarts: 2}},
		{"two steps", "s", []agent.Entry{says("r", agent.ToolUse("1", "say", nil)), {Kind: agent.KindResults, Run: "r"}, resumed("r")}, "agent", "r", tools.Checkpoint{Steps: 2, Restarts: 1}},
		{"waits for a child", "s", []agent.Entry{says("r", agent.ToolUse("2", "subagent", nil)), resumed("r"), resumed("r")}, "agent", "r", tools.Checkpoint{Steps: 3, Restarts: 2}},
		{"a step of the child", sub, []agent.Entry{user("r-t2-0"), says("r-t2-0", agent.Text("hm"))}, "agent", "r", tools.Checkpoint{Steps: 4}},
		{"the child itself", "s", nil, "subagent", "r-t2-0", tools.Checkpoint{Steps: 1}},
	} {
		write(c.session, c.entries...)
		got, ok, err := registry.Checkpoint(t.Context(), tools.Call{ID: c.id, Session: "s", Tool: c.tool}, started)
		if got != c.want || !ok || err != nil {
			t.Errorf("%s: %+v, %v, %v; want %+v", c.name, got, ok, err, c.want)
		}
	}
	// The state of a spawn call is that of its child.
	spawn := tools.Call{ID: "p", Session: "s", Tool: "spawn"}
	child := tools.Call{ID: tools.Token("p/subagent"), Session: "s"}
	write(tools.Token(agent.SubagentSession(child)), user(child.IDToken()), says(child.IDToken(), agent.Text("hm")), resumed(child.IDToken()))
	if got, ok, err := registry.Checkpoint(t.Context(), spawn, started); got != (tools.Checkpoint{Steps: 1, Restarts: 1}) || !ok || err != nil {
		t.Errorf("a spawn call: %+v, %v, %v", got, ok, err)
	}
	if _, ok, err := registry.Checkpoint(t.Context(), tools.Call{ID: "x", Session: "s", Tool: "nosuch"}, started); ok || err != nil {
		t.Errorf("a tool that does not resume: %v, %v", ok, err)
	}
}
