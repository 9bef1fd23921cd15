package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// outbox keeps the output of tools: one text for each call.
type outbox struct {
	mu    sync.Mutex
	calls []string // in the order of the first message of each call
	texts map[string]string
	fail  error // of the next message
}

func (o *outbox) send(_ context.Context, call tools.Call, res tools.Result) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.fail; err != nil {
		o.fail = nil
		return err
	}
	if o.texts == nil {
		o.texts = map[string]string{}
	}
	if _, known := o.texts[call.ID]; !known {
		o.calls = append(o.calls, call.ID)
	}
	o.texts[call.ID] = fmt.Sprint(call.Channel, call.ChatID, call.Session, ":", res.ForUser)
	return nil
}

// count returns how many messages of a call the user got.
func (o *outbox) count(call string) (n int) {
	for _, id := range o.calls {
		if id == call {
			n++
		}
	}
	return n
}

// The model gets ForLLM and the user always gets the reply. Before it, he gets
// ForUser of the results that the setting selects and that are not silent. The
// content of the texts does not matter.
func TestToolOutput(t *testing.T) {
	for name, c := range map[string]struct {
		results []*tools.Result
		last    []string
		all     []string
	}{
		"no tool":             {nil, nil, nil},
		"for the model only":  {[]*tools.Result{tools.NewToolResult("x")}, nil, nil},
		"for the user":        {[]*tools.Result{tools.UserResult("shown")}, []string{"shown"}, []string{"shown"}},
		"both differ":         {[]*tools.Result{{ForLLM: "long", UserContent: tools.UserContent{ForUser: "short"}}}, []string{"short"}, []string{"short"}},
		"silent":              {[]*tools.Result{tools.SilentResult("quiet")}, nil, nil},
		"silent with a text":  {[]*tools.Result{{ForLLM: "a", UserContent: tools.UserContent{ForUser: "secret"}, Silent: true}}, nil, nil},
		"blank":               {[]*tools.Result{{ForLLM: "a", UserContent: tools.UserContent{ForUser: " \n"}}}, nil, nil},
		"the last one counts": {[]*tools.Result{tools.UserResult("first"), tools.UserResult("second")}, []string{"second"}, []string{"first", "second"}},
		"then a quiet one":    {[]*tools.Result{tools.UserResult("first"), tools.SilentResult("second")}, nil, []string{"first"}},
		"looks like a notice": {[]*tools.Result{tools.NewToolResult("Message sent to console")}, nil, nil},
		"an error for both":   {[]*tools.Result{{ForLLM: "failed", UserContent: tools.UserContent{ForUser: "it failed"}, IsError: true}}, []string{"it failed"}, []string{"it failed"}},
	} {
		for mode, want := range map[agent.ToolOutput][]string{"": c.last, agent.OutputLast: c.last, agent.OutputAll: c.all, agent.OutputNone: nil} {
			t.Run(fmt.Sprint(name, "/", mode), func(t *testing.T) {
				s := newStage(t, newTool(t, "say", tools.Idempotent, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
					return c.results[in.N]
				}))
				var lines []string
				for i := range c.results {
					lines = append(lines, asks("say", fmt.Sprintf(`{"n":%d}`, i)))
				}
				model := &recorder{Provider: parseScript(t, append(lines, `{"text":"the reply"}`)...)}
				sent := &outbox{fail: errors.New("no responders")}
				o, err := s.agent(model, agent.Config{ToolOutput: mode, SendOutput: sent.send}).
					Run(t.Context(), tools.Call{ID: "r", Session: "s", Channel: "chat", ChatID: "7"}, agent.Text("go"))
				if err != nil || o.ForUser != "the reply" || o.Reply != "the reply" {
					t.Errorf("the user gets %q, reply %q, %v", o.ForUser, o.Reply, err)
				}
				var got []string
				for _, call := range sent.calls {
					got = append(got, sent.texts[call])
				}
				for i := range want {
					want = slices.Clone(want)
					want[i] = "chat7s:" + want[i]
				}
				if !slices.Equal(got, want) {
					t.Errorf("the tools sent %q, want %q", got, want)
				}
				for i, res := range agent.OutputOf(s.entries(t, "s"), "r") {
					if i >= len(want) || "chat7s:"+res.ForUser != want[i] {
						t.Errorf("by the log, output %d is %q; want %q", i, res.ForUser, want)
					}
				}
				for i, res := range c.results {
					b := model.requests[i+1].Messages[2*i+2].Content[0]
					if want := fmt.Sprintf("%q", res.ForLLM); string(b.Content) != want || b.IsError != res.IsError {
						t.Errorf("the model gets %s (error %v), want %s", b.Content, b.IsError, want)
					}
				}
			})
		}
	}
}

// The user gets no text twice, whether a tool's output, a message or the reply has it first.
func TestSameTextOnce(t *testing.T) {
	for name, c := range map[string]struct {
		mode  agent.ToolOutput
		turns []string
		sent  int
		reply string
	}{
		"output and reply":          {agent.OutputLast, []string{asks("say", `{}`), `{"text":"It is 7. "}`}, 0, "It is 7. "},
		"each output and reply":     {agent.OutputAll, []string{asks("say", `{}`), `{"text":"It is 7."}`}, 1, ""},
		"message and reply":         {agent.OutputLast, []string{asks("message", `{"content":"Done."}`), `{"text":"Done."}`}, 0, ""},
		"message and output":        {agent.OutputLast, []string{asks("message", `{"content":"It is 7."}`), asks("say", `{}`), `{"text":"Done."}`}, 0, "Done."},
		"message to another chat":   {agent.OutputLast, []string{asks("message", `{"content":"Done.","chat_id":"8"}`), `{"text":"Done."}`}, 0, "Done."},
		"message to this chat":      {agent.OutputLast, []string{asks("message", `{"content":"Done.","channel":"chat","chat_id":"7"}`), `{"text":"Done."}`}, 0, ""},
		"only a message":            {agent.OutputLast, []string{asks("message", `{"content":"Done."}`), `{}`}, 0, ""},
		"only one to another chat":  {agent.OutputLast, []string{asks("message", `{"content":"Done.","chat_id":"8"}`), `{}`}, 0, "(the agent ended without an answer)"},
		"only one of a job":         {agent.OutputLast, []string{asks("message", `{"content":"Done.","chat_id":"8"}`), `{}`}, 0, ""},
		"only one that was lost":    {agent.OutputLast, []string{asks("message", `{"content":"fail"}`), `{}`}, 0, "(the agent ended without an answer)"},
		"message that was not sent": {agent.OutputLast, []string{asks("message", `{"content":"fail"}`), `{"text":"fail"}`}, 0, "fail"},
	} {
		t.Run(name, func(t *testing.T) {
			type message struct {
				Content string `json:"content"`
				Channel string `json:"channel,omitempty"`
				ChatID  string `json:"chat_id,omitempty"`
			}
			s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
				return tools.UserResult("It is 7.")
			}), tools.MustTool("message", "Send a message.", func(_ context.Context, _ tools.Call, in message) *tools.Result {
				if in.Content == "fail" {
					return tools.Failure(errors.New("no"))
				}
				return tools.SilentResult("sent")
			}).WithEffect(tools.Keyed))
			action := map[bool]string{true: "cron"}[strings.HasSuffix(name, "of a job")]
			sent := &outbox{}
			o, err := s.agent(parseScript(t, c.turns...), agent.Config{ToolOutput: c.mode, SendOutput: sent.send}).
				Run(t.Context(), tools.Call{ID: "r", Session: "s", Action: action, Channel: "chat", ChatID: "7"}, agent.Text("go"))
			if err != nil || o.ForUser != c.reply || len(sent.calls) != c.sent {
				t.Errorf("the user gets %q and then %q (%v)", sent.texts, o.ForUser, err)
			}
			if shown := agent.OutputOf(s.entries(t, "s"), "r"); len(shown) > 0 && o.Reply == shown[0].ForUser {
				t.Errorf("by the log, the user sees %q twice", o.Reply)
			}
		})
	}
}

// A heartbeat that has nothing to report shows nothing. A user's message that is
// answered so shows its output.
func TestSilentHeartbeatSendsNoOutput(t *testing.T) {
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.UserResult("252 GB free")
	}))
	for id, c := range map[string]struct {
		action, reply string
		want          int
	}{
		"quiet":   {tools.ActionHeartbeat, " HEARTBEAT_OK\n", 0},
		"news":    {tools.ActionHeartbeat, "The disk is full.", 1},
		"message": {"", "HEARTBEAT_OK", 1},
	} {
		sent := &outbox{}
		a := s.agent(parseScript(t, asks("say", `{}`), fmt.Sprintf(`{"text":%q}`, c.reply)), agent.Config{SendOutput: sent.send})
		if _, err := a.Run(t.Context(), tools.Call{ID: "r", Session: id, Action: c.action}, agent.Text("go")); err != nil {
			t.Fatal(err)
		}
		if len(sent.calls) != c.want {
			t.Errorf("%s: sent %v, want %d", id, sent.texts, c.want)
		}
	}
}

// The process dies before each of its steps, before a message, or between a message and the log. The
// outputs and the reply are sent, whatever setting the other process has.
func TestOutputOfInterruptedRun(t *testing.T) {
	for mode, want := range map[agent.ToolOutput][]string{
		agent.OutputLast: {"r-t2-0"},
		agent.OutputAll:  {"r-t1-0", "r-t1-1", "r-t2-0"},
		agent.OutputNone: nil,
	} {
		for _, sends := range []bool{true, false} {
			outputOfInterruptedRun(t, mode, sends, want)
		}
	}
}

// outputOfInterruptedRun is TestOutputOfInterruptedRun with a mode. sends is set if a process that dies has sent its message.
func outputOfInterruptedRun(t *testing.T, mode agent.ToolOutput, sends bool, want []string) {
	s := newStage(t, newTool(t, "say", tools.Once, func(_ context.Context, call tools.Call, in sayArgs) *tools.Result {
		return tools.UserResult(fmt.Sprint("said ", in.N))
	}))
	model := parseScript(t, asks("say", `{"n":1}`, `{"n":2}`), asks("say", `{"n":3}`), `{"text":"done"}`)
	sent, setting := &outbox{}, mode
	for stop := 1; ; stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		steps := 0
		die := func() bool {
			mu.Lock()
			defer mu.Unlock()
			if steps++; steps == stop {
				cancel()
			}
			return steps >= stop
		}
		o, err := stepped{s.agent(model, agent.Config{
			ToolOutput: setting,
			SendOutput: func(ctx context.Context, call tools.Call, res tools.Result) error {
				died := die()
				if died && !sends {
					return context.Canceled
				}
				err := sent.send(ctx, call, res)
				if died {
					err = context.Canceled
				}
				return err
			},
		}), func(string) { die() }}.Run(ctx, tools.Call{ID: "r", Session: "s"}, agent.Text("go"))
		cancel()
		if err == nil {
			if o.ForUser != "done" {
				t.Errorf("%s: outcome %+v", mode, o)
			}
			break
		}
		if len(s.entries(t, "s")) > 0 {
			setting = agent.OutputNone // of the next process
		}
	}
	if got := slices.Sorted(maps.Keys(sent.texts)); !slices.Equal(got, want) {
		t.Errorf("%s: the user saw %q, want %q", mode, got, want)
	}
}

// The tools of a sub-agent show nothing: the user gets the report.
func TestSubagentSendsNoOutput(t *testing.T) {
	sent := &outbox{}
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.UserResult("the child's output")
	}))
	all, err := agent.Tools(agent.ToolsConfig{
		Models: map[string]agent.Provider{"m": parseScript(t,
			asks("subagent", `{"task":"child"}`), `{"text":"done"}`, `{"for":"^child"}`, asks("say", `{}`), `{"text":"born"}`)},
		DefaultModel: "m", Runner: s.runner, Conversations: &s.log, Definitions: s.registry.Definitions,
		Config: agent.Config{ToolOutput: agent.OutputAll, SendOutput: sent.send},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.registry.Register(all...); err != nil {
		t.Fatal(err)
	}
	if e := s.call(t, "r", "agent", `{"prompt":"go"}`); e.ForUser != "done" || !e.Markdown {
		t.Errorf("result %+v", e)
	}
	if len(sent.calls) != 1 || sent.texts["r-t1-0"] != "s:born" {
		t.Errorf("the tools sent %q", sent.texts)
	}
}
