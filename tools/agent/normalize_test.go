package agent_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// turns is a provider that returns one turn after the other.
type turns [][]agent.Block

func (t turns) Complete(_ context.Context, req agent.Request) (agent.Response, error) {
	turn := 0
	for _, m := range req.Messages {
		if m.Role == agent.RoleAssistant {
			turn++
		}
	}
	return agent.Response{Content: t[turn]}, nil
}

// The loop repairs missing, repeated and invalid ids, invalid names, and inputs that
// are not objects, so that no provider rejects the conversation. Each result stays
// with its own call.
func TestNormalizeTurns(t *testing.T) {
	use := func(id, name, input string) agent.Block { return agent.ToolUse(id, name, json.RawMessage(input)) }
	model := &recorder{Provider: turns{
		{use("", "say", `{"text":"a"}`), use("", "say", `{"text":"b"}`), use("x", "say", `{"text":"c"}`), use("x", "say", `{"text":"d"}`), use("call_1_0", "say", `{"text":"e"}`)},
		{use("x", "say", `{"text":"f"}`), use("../x *", "no such tool!", `[1]`), use(strings.Repeat("y", 65), "", `"{\"text\":"`), use("fine", "say", `{"text":"g"}`)},
		{agent.Text("done")},
	}}
	s := newStage(t, sayTool(t))
	if o := run(t, s.agent(model, agent.Config{}), "s", "r", "go"); o.Reply != "done" {
		t.Fatalf("outcome %+v", o)
	}
	fits := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	seen := map[string]bool{}
	var got []string
	last := model.requests[2].Messages
	for i, m := range last {
		for j, b := range m.Content {
			if b.Type != agent.TypeToolUse {
				continue
			}
			var input map[string]any
			if !fits.MatchString(b.ID) || seen[b.ID] || !fits.MatchString(b.Name) || json.Unmarshal(b.Input, &input) != nil {
				t.Errorf("call %q of %q with %s is sent", b.ID, b.Name, b.Input)
			}
			seen[b.ID] = true
			answer := last[i+1].Content[j]
			if answer.ToolUseID != b.ID {
				t.Errorf("the result of %q is that of %q", b.ID, answer.ToolUseID)
			}
			got = append(got, string(b.Input)+" "+string(answer.Content))
		}
	}
	for i, want := range []string{"said a", "said b", "said c", "said d", "said e", "said f", "unknown tool", "unknown tool", "said g"} {
		if i >= len(got) || !strings.Contains(got[i], want) {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
	if want := `{"not_a_json_object":"{\"text\":"}`; !strings.HasPrefix(got[7], want) {
		t.Errorf("the invalid input is sent as %s, want %s", got[7], want)
	}
	if b := last[3].Content[3]; b.ID != "fine" {
		t.Errorf("a valid id became %q", b.ID)
	}
	// The log keeps the turns unchanged.
	for _, e := range s.entries(t, "s") {
		if e.Message != nil && len(e.Message.Content) == 5 && e.Message.Content[3].ID != "x" {
			t.Errorf("the log has %+v", e.Message.Content[3])
		}
	}
}

// smallLog accepts only small entries.
type smallLog struct{ memConversations }

func (l *smallLog) Append(ctx context.Context, session string, after uint64, entry []byte) (uint64, error) {
	if len(entry) > 1000 {
		return 0, agent.ErrTooLarge
	}
	return l.memConversations.Append(ctx, session, after, entry)
}

// A turn that is too large for the log ends the run, also if only the end of the run, which has
// the reply twice, is. The session stays usable.
func TestTurnTooLargeForTheLog(t *testing.T) {
	log := &smallLog{}
	const tooLarge = "the agent failed: the provider's answer cannot be decoded: the turn is too large for the log of the conversation; lower the maximum tokens of a turn"
	for id, c := range map[string]struct {
		text   string
		reason agent.Reason
		want   string
	}{
		"large": {strings.Repeat("x", 1000), agent.Failed, tooLarge},
		"twice": {strings.Repeat("x", 400), agent.Failed, tooLarge},
		"small": {"hi", agent.Done, "hi"},
	} {
		o := run(t, agent.New(turns{{agent.Text(c.text)}}, nil, log, agent.Config{}), id, "r", "go")
		if o.Reason != c.reason || o.ForUser != c.want {
			t.Errorf("%s: outcome %+v, want %q", id, o, c.want)
		}
	}
}

// If the final turn has no text, the result says so, and the user gets a sentence.
func TestEmptyReply(t *testing.T) {
	s := newAgentStage(t, turns{{}}, agent.Limits{})
	if e := s.call(t, "r", "agent", `{"prompt":"go"}`); e.IsError || e.ForLLM != "(the agent ended without an answer)" || e.ForUser != e.ForLLM {
		t.Errorf("result %+v", e)
	}
}

// A blank text of the model is not stored, and one of an earlier version is not sent again:
// Anthropic rejects each request that contains one. The user gets a sentence.
func TestBlankText(t *testing.T) {
	s := newAgentStage(t, turns{{agent.Text(" \n\t\u200b")}}, agent.Limits{})
	if e := s.call(t, "r", "agent", `{"prompt":"go"}`); e.IsError || e.ForUser != "(the agent ended without an answer)" {
		t.Errorf("result %+v", e)
	}
	for _, e := range s.entries(t, tools.DefaultSession) {
		if e.Message != nil && e.Kind == agent.KindAssistant && len(e.Message.Content) > 0 {
			t.Errorf("stored %+v", e.Message.Content)
		}
	}
	old := func(run, kind, role, text string) agent.Entry {
		return agent.Entry{Kind: agent.Kind(kind), Run: run, Message: &agent.Message{Role: role, Content: []agent.Block{agent.Text(text)}}}
	}
	sent := agent.Messages([]agent.Entry{
		old("a", "user", "user", "one"), old("a", "assistant", "assistant", "\n"), {Kind: agent.KindEnd, Run: "a"}, old("b", "user", "user", "two"),
	})
	if len(sent) != 1 || sent[0].Role != agent.RoleUser || len(sent[0].Content) != 2 {
		t.Errorf("sent %+v", sent)
	}
}

// A report counts only the calls that ran.
func TestReportCountsCalls(t *testing.T) {
	model := parseScript(t,
		`{"tools":[{"name":"subagent","input":{"task":"child","tools":["say"]}}]}`,
		`{"expect":["Tools used: say 1x\n"],"text":"done"}`,
		`{"for":"^child"}`,
		`{"tools":[{"name":"secret"},{"name":"say"}]}`, `{"text":"born"}`)
	s := newAgentStage(t, model, agent.Limits{}, sayTool(t), newTool(t, "secret", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.NewToolResult("")
	}))
	if e := s.call(t, "r", "agent", `{"prompt":"go"}`); e.IsError {
		t.Errorf("result %+v", e)
	}
}
