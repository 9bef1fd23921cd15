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

// How far a call is stands in the log of its run, in those of the sub-agents
// that it waits for, and, before it has begun, in what others do in its session.
func TestStanding(t *testing.T) {
	s := newStage(t)
	all, err := agent.Tools(agent.ToolsConfig{
		Models: map[string]agent.Provider{"m": sayer{}}, DefaultModel: "m",
		Runner: s.caller, Conversations: &s.log, Definitions: s.registry.Definitions,
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(all...); err != nil {
		t.Fatal(err)
	}
	began := time.Now().UTC().Truncate(time.Second)
	clock := began
	write := func(session string, entries ...agent.Entry) {
		for _, e := range entries {
			clock = clock.Add(time.Second)
			e.At = clock
			data, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			_, last, _ := s.log.Read(context.Background(), session)
			if _, err := s.log.Append(context.Background(), session, last, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	sub := tools.Token(agent.SubagentSession(tools.Call{ID: "r-t2-0", Session: "s"}))
	user := func(run string) agent.Entry { return agent.Entry{Kind: agent.KindUser, Run: run} }
	taken := func(run string) agent.Entry { return agent.Entry{Kind: agent.KindResumed, Run: run} }
	says := func(run string, blocks ...agent.Block) agent.Entry {
		return agent.Entry{Kind: agent.KindAssistant, Run: run, Message: &agent.Message{Role: agent.RoleAssistant, Content: blocks}}
	}
	for _, c := range []struct {
		name    string
		session string
		entries []agent.Entry
		tool    string
		id      string
		want    tools.Standing
	}{
		{"nothing happened", "s", nil, "agent", "r", tools.Standing{}},
		{"it waits for another", "s", []agent.Entry{user("q"), says("q", agent.Text("hi")), taken("q"), {Kind: agent.KindEnd, Run: "q"}}, "agent", "r", tools.Standing{Steps: 2}},
		{"it began", "s", []agent.Entry{user("r"), taken("r"), {Kind: agent.KindOffloaded, Run: "r"}}, "agent", "r", tools.Standing{Vain: 2}},
		{"it got on", "s", []agent.Entry{says("r", agent.ToolUse("1", "say", nil)), {Kind: agent.KindResults, Run: "r"}, taken("r")}, "agent", "r", tools.Standing{Steps: 2, Vain: 1}},
		{"it waits for a child", "s", []agent.Entry{says("r", agent.ToolUse("2", "subagent", nil)), taken("r"), taken("r")}, "agent", "r", tools.Standing{Steps: 3, Vain: 2}},
		{"the child got on", sub, []agent.Entry{user("r-t2-0"), says("r-t2-0", agent.Text("hm"))}, "agent", "r", tools.Standing{Steps: 4}},
		{"the child itself", "s", nil, "subagent", "r-t2-0", tools.Standing{Steps: 1}},
	} {
		write(c.session, c.entries...)
		got, ok, err := registry.Standing(t.Context(), tools.Call{ID: c.id, Session: "s", Tool: c.tool}, began)
		if got != c.want || !ok || err != nil {
			t.Errorf("%s: %+v, %v, %v; want %+v", c.name, got, ok, err, c.want)
		}
	}
	// A spawn call stands where its child does.
	spawn := tools.Call{ID: "p", Session: "s", Tool: "spawn"}
	child := tools.Call{ID: tools.Token("p/subagent"), Session: "s"}
	write(tools.Token(agent.SubagentSession(child)), user(child.IDToken()), says(child.IDToken(), agent.Text("hm")), taken(child.IDToken()))
	if got, ok, err := registry.Standing(t.Context(), spawn, began); got != (tools.Standing{Steps: 1, Vain: 1}) || !ok || err != nil {
		t.Errorf("a spawn call: %+v, %v, %v", got, ok, err)
	}
	if _, ok, err := registry.Standing(t.Context(), tools.Call{ID: "x", Session: "s", Tool: "nosuch"}, began); ok || err != nil {
		t.Errorf("a tool that does not resume: %v, %v", ok, err)
	}
}
