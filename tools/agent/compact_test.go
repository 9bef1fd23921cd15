package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// until runs an agent whose process is killed before a step with the probability, until
// the run ends. It returns how often the process died after the model wrote a summary.
func (s *stage) until(t *testing.T, model agent.Provider, cfg agent.Config, die float64, call tools.Call, prompt string) (o agent.Outcome, lost int) {
	t.Helper()
	for {
		ctx, cancel := context.WithCancel(t.Context())
		onStep := func(step string) {
			p := die
			switch step {
			case "compact", "summarize", "log_summary":
				p = 0.3
			}
			if ctx.Err() == nil && rand.Float64() < p {
				if step == "log_summary" {
					lost++
				}
				cancel()
			}
		}
		o, err := s.agent(deadContext{model}, cfg).Run(tracing.OnStep(ctx, onStep), call, agent.Text(prompt))
		cancel()
		if err == nil {
			return o, lost
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// deadContext fails if the context has ended, like a provider that is reached by HTTP.
type deadContext struct{ agent.Provider }

func (p deadContext) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	if ctx.Err() != nil {
		return agent.Response{}, context.Cause(ctx)
	}
	return p.Provider.Complete(ctx, req)
}

// compactions returns the compactions of a session.
func (s *stage) compactions(t *testing.T, session string) (all []*agent.Compaction) {
	t.Helper()
	for _, e := range s.entries(t, session) {
		if e.Kind == agent.KindCompacted {
			all = append(all, e.Compaction)
		}
	}
	return all
}

// checkRequests fails if a request for a turn is invalid or has more than budget tokens. It
// returns how many requests were for summaries.
func checkRequests(t *testing.T, requests []agent.Request, budget int64) (summaries int) {
	t.Helper()
	for i, req := range requests {
		if req.Summary {
			summaries++
		} else {
			checkPairing(t, req.Messages)
		}
		if n := req.EstimateTokens(); n > budget {
			t.Errorf("request %d has about %d tokens, and the limit is %d", i, n, budget)
		}
	}
	return summaries
}

// A conversation of 200 messages, whose process dies now and then, never fails and stays
// below the context limit. Each compaction is logged once. The reading tools find facts of
// the first turns, and the model sees the newest ones.
func TestLongConversation(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	const messages, budget = 200, 14_000
	s := newStage(t, newTool(t, "say", tools.Once, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
		return tools.NewToolResult(fmt.Sprintf("tool fact %d: %d", in.N, 7000+in.N))
	}))
	var lines []string
	for i := range messages {
		if i%5 == 0 {
			lines = append(lines, asks("say", fmt.Sprintf(`{"n":%d}`, i)))
		}
		lines = append(lines, fmt.Sprintf(`{"text":"reply fact %d: %d. %s"}`, i, 8000+i, strings.Repeat("blah ", 60)))
	}
	find := func(pattern, want string) {
		lines = append(lines,
			`{"tools":[{"name":"query_artifacts","input":{}}]}`,
			`{"capture":{"id":"(run\\d+-turns-0-\\d+)"},"tools":[{"name":"grep_knowledge","input":{"artifact_id":"${id}","pattern":"`+pattern+`"}}]}`,
			`{"expect":["`+want+`"],"text":"found"}`)
	}
	find("user fact 0:", "user fact 0: 6000")
	find("reply fact 1:", "reply fact 1: 8001")
	find("tool fact 5:", "tool fact 5: 7005")
	lines = append(lines, `{"for":"^\\[summary\\]$"}`, `{"text":"They tell each other facts."}`)
	model := &recorder{Provider: parseScript(t, lines...)}
	cfg := agent.Config{ContextTokens: budget, System: "You are the system."}
	lost := 0
	for i := range messages + 3 {
		call := tools.Call{ID: fmt.Sprint("run", i), Session: "s"}
		o, n := s.until(t, model, cfg, 0.02, call, fmt.Sprintf("user fact %d: %d", i, 6000+i))
		if lost += n; o.Reason != agent.Done {
			t.Fatalf("message %d: %+v: %v", i, o, o.Err())
		}
	}
	summaries := checkRequests(t, model.requests, budget)
	all := s.compactions(t, "s")
	if len(all) < 5 || summaries > len(all)+lost || summaries < len(all) {
		t.Errorf("%d compactions, %d requests for summaries, of which %d were lost", len(all), summaries, lost)
	}
	for i, c := range all[1:] {
		if c.Cut <= all[i].Cut || c.Turns <= all[i].Turns || c.Summary != "They tell each other facts." {
			t.Errorf("compaction %+v follows %+v", c, all[i])
		}
	}
	stored := 0 // a process that continues stores the same turns under the same id
	for rec, err := range s.store.List(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(rec.ID, "-turns-") {
			stored++
		}
	}
	if stored != len(all) {
		t.Errorf("%d artifacts with turns for %d compactions", stored, len(all))
	}
	turns := 0
	for _, e := range s.entries(t, "s") {
		if e.Kind == agent.KindAssistant {
			turns++
		}
	}
	if want := messages + messages/5 + 9; turns != want {
		t.Errorf("%d turns in the log, want %d", turns, want)
	}
	last := model.requests[len(model.requests)-1]
	if text := fmt.Sprint(last.Messages); last.System != cfg.System || !strings.Contains(text, "user fact 202:") {
		t.Errorf("the last request lacks the system prompt or the newest message: %s", text)
	}
	t.Logf("%d requests, %d compactions, %d lost summaries", len(model.requests), len(all), lost)
}

// In one long run, the model keeps its task word for word.
func TestLongRunKeepsItsTask(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	s := newStage(t, newTool(t, "say", tools.Once, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
		return tools.NewToolResult(fmt.Sprintf("fact %d: %s", in.N, strings.Repeat("x y ", 80)))
	}))
	var lines []string
	for i := range 120 {
		lines = append(lines, asks("say", fmt.Sprintf(`{"n":%d}`, 2*i), fmt.Sprintf(`{"n":%d}`, 2*i+1)))
	}
	model := &recorder{Provider: parseScript(t, append(lines, `{"text":"done"}`)...)}
	cfg := agent.Config{ContextTokens: 9_000, Limits: agent.Limits{MaxTurns: 200}}
	o, _ := s.until(t, model, cfg, 0.01, tools.Call{ID: "r", Session: "s"}, "do the task word for word")
	if o.Reply != "done" || o.Turns != 121 || o.Tools["say"] != 240 {
		t.Errorf("outcome %+v: %v", o, o.Err())
	}
	checkRequests(t, model.requests, 9_000)
	for i, req := range model.requests {
		if first := req.Messages[0].Content[0].Text; !req.Summary && first != "do the task word for word" {
			t.Errorf("request %d starts with %q", i, first)
		}
	}
	// The script has no summary, so the model gets an extract, which names the calls.
	all := s.compactions(t, "s")
	if len(all) == 0 || !strings.Contains(all[0].Summary, "assistant calls say") || !strings.Contains(all[0].Summary, "do the task") {
		t.Errorf("compactions %+v", all)
	}
	// The next run sees the same summary, and a fresh one nothing of it.
	for id, fresh := range map[string]bool{"more": false, "fresh": true} {
		next := &recorder{Provider: model.Provider}
		_, err := s.agent(next, agent.Config{Fresh: fresh}).Run(t.Context(), tools.Call{ID: id, Session: "s"}, agent.Text("and?"))
		if text := fmt.Sprint(next.requests[0].Messages); err != nil || strings.Contains(text, "replaced by a summary") == fresh || fresh && next.requests[0].ReplacedTurns != 0 {
			t.Errorf("%s: %v, request %.200s", id, err, text)
		}
		if fresh {
			break
		}
	}
}

// A single message that is longer than the context does not fail: the model gets its start
// and end, and reads the rest.
func TestMessageLongerThanContext(t *testing.T) {
	s := newStage(t)
	model := &recorder{Provider: parseScript(t,
		`{"tools":[{"name":"grep_knowledge","input":{"artifact_id":"r-turns-0-1","pattern":"the needle is"}}]}`,
		`{"expect":["the needle is gold"],"text":"done"}`)}
	prompt := "please read\n" + strings.Repeat("hay, dry and yellow\n", 1_400) + "the needle is gold\n" + strings.Repeat("hay\n", 2_500) + "thank you"
	if o := run(t, s.agent(model, agent.Config{ContextTokens: 10_000}), "s", "r", prompt); o.Reply != "done" {
		t.Errorf("outcome %+v: %v", o, o.Err())
	}
	checkRequests(t, model.requests, 10_000)
	first := model.requests[len(model.requests)-1].Messages[0].Content[0].Text
	if !strings.HasPrefix(first, "please read\n") || !strings.Contains(first, "thank you") {
		t.Errorf("the message is %.100q", first)
	}
}

// A provider that accepts much less than the configured context gets a smaller one, and not
// an endless number of requests.
func TestOverflowCompacts(t *testing.T) {
	s := newStage(t)
	var lines []string
	for i := range 30 {
		lines = append(lines, fmt.Sprintf(`{"text":"reply %d %s"}`, i, strings.Repeat("blah ", 100)))
	}
	model := &recorder{Provider: overflowing{parseScript(t, lines...), t, 4_000}}
	for i := range 30 {
		if o := run(t, s.agent(model, agent.Config{}), "s", fmt.Sprint("r", i), "go"); o.Reason != agent.Done {
			t.Fatalf("run %d: %+v: %v", i, o, o.Err())
		}
	}
	if n := len(s.compactions(t, "s")); n < 3 || len(model.requests) > 30+3*n {
		t.Errorf("%d compactions, %d requests", n, len(model.requests))
	}
	if o := run(t, s.agent(model, agent.Config{}), "s2", "r", strings.Repeat("long ", 20_000)); o.Reason != agent.Done {
		t.Errorf("a long message: %+v: %v", o, o.Err())
	}
}

// Without a store, or if it is full, the model gets only the summary.
func TestCompactionWithoutStore(t *testing.T) {
	for name, offloader := range map[string]*offload.Offloader{
		"none": nil, "full": agent.NewHistoryOffloader(mem.New(offload.StoreConfig{Quota: 10})),
	} {
		s := &stage{}
		var lines []string
		for range 30 {
			lines = append(lines, fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("blah ", 100)))
		}
		model := &recorder{Provider: parseScript(t, append(lines, `{"for":"^\\[summary\\]$"}`, `{"text":"They talk."}`)...)}
		a := agent.New(model, nil, &s.log, agent.Config{ContextTokens: 2_000, Offloader: offloader})
		for i := range 30 {
			if o := run(t, a, "s", fmt.Sprint("r", i), "go"); o.Reason != agent.Done {
				t.Fatalf("%s: run %d: %+v: %v", name, i, o, o.Err())
			}
		}
		checkRequests(t, model.requests, 2_000)
		// The total of the session includes the summaries.
		total, entries := agent.Total{}, s.entries(t, "s")
		for _, e := range entries {
			if e.Usage != nil {
				total.Input, total.Output = total.Input+e.Usage.Input, total.Output+e.Usage.Output
			}
		}
		total.Turns = 30
		if end := entries[len(entries)-1]; *end.Total != total || agent.TotalOf(entries) != total {
			t.Errorf("%s: total %+v, by the log %+v; want %+v", name, *end.Total, agent.TotalOf(entries), total)
		}
		last := fmt.Sprint(model.requests[len(model.requests)-1].Messages)
		if !strings.Contains(last, "They talk.") || strings.Contains(last, "artifact") {
			t.Errorf("%s: the last request is %s", name, last)
		}
	}
}

// If the store becomes full, the model knows that the artifact has not all of the turns.
func TestCompactionWhenTheStoreBecomesFull(t *testing.T) {
	s := &stage{}
	var lines []string
	for range 30 {
		lines = append(lines, fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("blah ", 100)))
	}
	model := &recorder{Provider: parseScript(t, append(lines, `{"for":"^\\[summary\\]$"}`, `{"text":"They talk."}`)...)}
	store := mem.New(offload.StoreConfig{Quota: 6_000})
	a := agent.New(model, nil, &s.log, agent.Config{ContextTokens: 2_000, Offloader: agent.NewHistoryOffloader(store)})
	for i := range 30 {
		run(t, a, "s", fmt.Sprint("r", i), "go")
	}
	all := s.compactions(t, "s")
	last := fmt.Sprint(model.requests[len(model.requests)-1].Messages)
	if c := all[len(all)-1]; len(c.Parts) != 1 || c.Parts[0].To >= c.Cut || !strings.Contains(last, "The full text of the older of them is in the artifact") {
		t.Errorf("%+v: the last request is %s", c, last)
	}
}

// A turn that the provider paused is not cut in two. While the provider is down, the run waits for
// a summary.
func TestCompactionKeepsPausedTurns(t *testing.T) {
	s := newStage(t)
	model := &pausing{down: true}
	a := s.agent(model, agent.Config{ContextTokens: 9_000})
	for i := range 40 {
		call := tools.Call{ID: fmt.Sprint("r", i), Session: "s"}
		o, err := a.Run(t.Context(), call, agent.Text("go"))
		if _, waits := tools.PauseOf(err); waits && model.down {
			model.down = false
			o, err = a.Run(t.Context(), call, agent.Text("go"))
		}
		if err != nil || o.Reason != agent.Done {
			t.Fatalf("run %d: %+v: %v, %v", i, o, o.Err(), err)
		}
	}
	if all := s.compactions(t, "s"); model.down || len(all) == 0 || all[0].Summary != "summary" {
		t.Errorf("compactions %+v; the model is down: %v", all, model.down)
	}
	if model.split > 0 {
		t.Errorf("%d requests have half of a turn", model.split)
	}
}

// pausing pauses each turn once.
type pausing struct {
	split int
	down  bool // requests for a summary fail
}

func (p *pausing) Complete(_ context.Context, req agent.Request) (agent.Response, error) {
	if req.Summary && p.down {
		return agent.Response{}, &agent.ProviderError{Code: agent.CodeOverloaded, Retryable: true}
	}
	if req.Summary {
		return agent.Response{Content: []agent.Block{agent.Text("summary")}, StopReason: agent.StopEndTurn}, nil
	}
	last := req.Messages[len(req.Messages)-1]
	for i, m := range req.Messages {
		if m.Role == agent.RoleAssistant && i < len(req.Messages)-1 && len(m.Content) != 2 {
			p.split++
		}
	}
	if last.Role == agent.RoleAssistant {
		return agent.Response{Content: []agent.Block{agent.Text("second " + strings.Repeat("blah ", 50))}, StopReason: agent.StopEndTurn}, nil
	}
	return agent.Response{Content: []agent.Block{agent.Text("first " + strings.Repeat("blah ", 50))}, StopReason: agent.StopPause}, nil
}
