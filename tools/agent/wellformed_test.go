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

// sayer is a provider that says one turn after the other.
type sayer [][]agent.Block

func (s sayer) Complete(_ context.Context, req agent.Request) (agent.Response, error) {
	turn := 0
	for _, m := range req.Messages {
		if m.Role == agent.RoleAssistant {
			turn++
		}
	}
	return agent.Response{Content: s[turn]}, nil
}

// Ids that are missing, used twice or not of the usual form, names that no tool
// has and arguments that are no object go back so that no provider refuses the
// conversation for them; each result stands with its own call.
func TestTurnsGoBackWellFormed(t *testing.T) {
	use := func(id, name, input string) agent.Block { return agent.ToolUse(id, name, json.RawMessage(input)) }
	model := &recorder{Provider: sayer{
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
				t.Errorf("call %q of %q with %s goes back", b.ID, b.Name, b.Input)
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
		t.Errorf("broken arguments go back as %s, want %s", got[7], want)
	}
	if b := last[3].Content[3]; b.ID != "fine" {
		t.Errorf("an id that was fine became %q", b.ID)
	}
	// What stands in the log stays as it came.
	for _, e := range s.entries(t, "s") {
		if e.Message != nil && len(e.Message.Content) == 5 && e.Message.Content[3].ID != "x" {
			t.Errorf("the log has %+v", e.Message.Content[3])
		}
	}
}

// smallLog is a log that takes small entries.
type smallLog struct{ agent.MemConversations }

func (l *smallLog) Append(ctx context.Context, session string, after uint64, entry []byte) (uint64, error) {
	if len(entry) > 1000 {
		return 0, agent.ErrTooLarge
	}
	return l.MemConversations.Append(ctx, session, after, entry)
}

// A turn that no log takes ends the run, and leaves the session usable.
func TestTurnTooLargeForTheLog(t *testing.T) {
	log := &smallLog{}
	for id, c := range map[string]struct {
		text   string
		reason agent.Reason
		want   string
	}{
		"large": {strings.Repeat("x", 1000), agent.Failed, "the agent failed: the provider's answer cannot be decoded: the turn is too large for the log of the conversation; lower the maximum tokens of a turn"},
		"small": {"hi", agent.Done, "hi"},
	} {
		o := run(t, agent.New(sayer{{agent.Text(c.text)}}, nil, log, agent.Config{}), id, "r", "go")
		if o.Reason != c.reason || o.ForUser != c.want {
			t.Errorf("%s: outcome %+v, want %q", id, o, c.want)
		}
	}
}

// An agent that ends without a word says so to whoever asked, and the user is
// not sent anything.
func TestEmptyReply(t *testing.T) {
	s := family(t, sayer{{}}, agent.Limits{})
	if e := s.call(t, "r", "agent", `{"prompt":"go"}`); e.IsError || e.ForLLM != "(the agent ended without an answer)" || e.ForUser != "" {
		t.Errorf("result %+v", e)
	}
}

// A report counts the calls that were made, not those that were asked for.
func TestReportCountsCallsMade(t *testing.T) {
	model := parseScript(t,
		`{"tools":[{"name":"subagent","input":{"task":"child","tools":["say"]}}]}`,
		`{"expect":["Tools used: say 1x\n"],"text":"done"}`,
		`{"for":"^child"}`,
		`{"tools":[{"name":"secret"},{"name":"say"}]}`, `{"text":"born"}`)
	s := family(t, model, agent.Limits{}, sayTool(t), speaker(t, "secret", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.NewToolResult("")
	}))
	if e := s.call(t, "r", "agent", `{"prompt":"go"}`); e.IsError {
		t.Errorf("result %+v", e)
	}
}
