package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// harbourScript is a run with three sub-agents, of which two ask for an approval.
const harbourScript = `
{"text":"I send three helpers.","usage":{"input_tokens":1000,"output_tokens":10,"cost":0.5},"tools":[{"name":"subagent","input":{"task":"crane one"}},{"name":"subagent","input":{"task":"crane two"}},{"name":"subagent","input":{"task":"crane three"}}]}
{"text":"The harbour is fine.","usage":{"input_tokens":2000,"output_tokens":20,"cost":0.25}}
{"for":"crane one"}
{"text":"I release.","usage":{"input_tokens":100,"output_tokens":1},"tools":[{"name":"deploy","input":{"text":"plan-one"}}]}
{"text":"released","usage":{"input_tokens":100,"output_tokens":1}}
{"for":"crane two"}
{"text":"I release too.","usage":{"input_tokens":100,"output_tokens":1},"tools":[{"name":"deploy","input":{"text":"plan-two"}}]}
{"text":"not released","usage":{"input_tokens":100,"output_tokens":1}}
{"for":"crane three"}
{"text":"I read the log.","usage":{"input_tokens":100,"output_tokens":1},"tools":[{"name":"logs","input":{"lines":20000}}]}
{"text":"read","usage":{"input_tokens":100,"output_tokens":1}}
`

// startAgents starts an installation whose worker has a real agent with a scripted model.
func startAgents(t *testing.T, script string) *installation {
	t.Helper()
	in := &installation{t: t, bus: bustest.New(t)}
	model, err := provider.ParseScript([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	registry, store := tools.NewRegistry(bustest.Log(t)), mem.New(offload.StoreConfig{})
	setup := agents.NewToolsConfig(in.bus, store, bustest.Log(t))
	setup.Definitions, setup.DefaultModel, setup.Models = registry.Definitions, "m", map[string]agent.Provider{"m": claude{model}}
	setup.Config.System = "You are the harbour master."
	toolset, err := agent.Tools(setup)
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(in.tools(), func(tool tools.Tool) bool { return tool.Definition().Name == agent.AgentTool })
	if err := registry.Register(append(toolset, others...)...); err != nil {
		t.Fatal(err)
	}
	cfg := worker.Config{Queues: append([]string{bus.DefaultQueue}, agents.Queues(2)...), Slots: 16, Log: bustest.Log(t)}
	cfg.Approvals.Needed = func(call tools.Call) bool { return call.Tool == "deploy" }
	bustest.Run(t, worker.New(in.bus, registry, offload.NewOffloader(store, offload.Config{}), cfg).Run)
	in.serve(console.Config{})
	return in
}

// claude is a scripted model with a name of Anthropic's.
type claude struct{ agent.Provider }

func (c claude) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	res, err := c.Provider.Complete(ctx, req)
	res.Model = "claude-test"
	return res, err
}

// prompt submits a prompt to the agent, which answers in the background.
func (in *installation) prompt(session, id, text string) (ended <-chan error) {
	in.t.Helper()
	args, err := bus.Encode(map[string]string{"prompt": text})
	if err != nil {
		in.t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	in.t.Cleanup(cancel)
	go func() {
		_, err := rpc.Submit(ctx, in.bus, bus.AgentQueue, tools.Call{ID: id, Session: session, Tool: agent.AgentTool, Args: args})
		done <- err
	}()
	return done
}

// questions waits for n approvals, and returns the one of the call with an argument.
func (in *installation) questions(n int) func(text string) tools.CallKey {
	in.t.Helper()
	var waiting []approvals.Approval
	bustest.WaitUntil(in.t, "the questions", func() (ok bool) {
		var err error
		waiting, err = approvals.List(in.t.Context(), in.bus, "*")
		return err == nil && len(waiting) == n
	})
	return func(text string) tools.CallKey {
		for _, a := range waiting {
			if strings.Contains(string(a.Args), text) {
				return tools.CallKey{Session: a.Session, ID: a.ID}
			}
		}
		in.t.Fatalf("no question about %q in %+v", text, waiting)
		return tools.CallKey{}
	}
}

// A run with three sub-agents and two approvals is one picture: all steps with their times,
// tokens and cost, while it runs and afterwards, on a phone, without errors of accessibility.
func TestTrace(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	in := startAgents(t, harbourScript)
	ended := in.prompt("s", "r1", "Look at the harbour")
	question := in.questions(2)

	running := get[agents.Trace](in, "/api/sessions/s/trace")
	if run := running.Run; run.ID != "r1" || !run.EndedAt.IsZero() || run.State != "" || run.Text != "Look at the harbour" {
		t.Errorf("the run that waits: %+v", run)
	}
	b := browse(t, in, 390, 844)
	b.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	b.open("conversations/s/trace", "needs approval")
	b.shows("3 sub-agents, 2 approvals waited")

	asked := task.Answer{Approve: true, By: "the harbour master"}
	if _, err := approvals.Answer(t.Context(), in.bus, question("plan-one"), asked); err != nil {
		t.Fatal(err)
	}
	if _, err := approvals.Answer(t.Context(), in.bus, question("plan-two"), task.Answer{Reason: "too-windy"}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.shows("3,636 tokens, cost 0.7500") // the page follows the run
	b.shows("denied")
	if n := b.eval(`document.querySelectorAll(".steps .steps .step").length`); n != "11" {
		t.Errorf("%s steps of sub-agents and calls, want 3 for each sub-agent and 2 approvals:\n%s", n, b.text())
	}
	for _, bar := range []string{"Math.min(...bars)", "1 - Math.max(...bars)"} {
		if ok := b.eval(`(() => { const bars = [...document.querySelectorAll(".step .load")].map(e => +e.style.getPropertyValue("--from")); return ` + bar + ` >= 0 })()`); ok != "true" {
			t.Errorf("a bar begins outside of the run: %s", bar)
		}
	}
	b.eval(`[...document.querySelectorAll(".step summary")].find(s => s.innerText.includes("plan-one")).focus()`)
	b.press(kb.Enter)
	b.until(`document.querySelector(".step details[open] pre").innerText.includes('"text": "plan-one"')`)
	b.eval(`document.querySelectorAll(".step details").forEach(d => { d.open = true })`)
	b.shows("too-windy")
	b.shows("the whole result") // the artifact of the log
	if wide := b.eval("document.documentElement.scrollWidth > innerWidth || document.querySelector('.detail').scrollWidth > document.querySelector('.detail').clientWidth"); wide != "false" {
		t.Error("the trace is wider than a phone")
	}
	b.accessible()
	b.eval(`document.querySelectorAll(".step details").forEach(d => { d.open = false })`)
	b.screenshot("phone-trace")
	b.run(chromedp.EmulateViewport(1280, 800))
	b.screenshot("trace")
	b.accessible()
	b.press(kb.Escape)
	b.until("!!document.querySelector('.books .end a')") // the link to the trace of the run, behind a quiet line

	trace := get[agents.Trace](in, "/api/sessions/s/trace?run=r1")
	if want := (agent.Usage{Input: 3600, Output: 36, Cost: 0.75}); trace.Run.Usage != want || trace.Run.State != string(agent.Done) {
		t.Errorf("the run: %+v", trace.Run)
	}
	for i, want := range []string{"approved by the harbour master", "denied by ", ""} {
		call := trace.Run.Steps[1+i]
		deploy := call.Steps[1]
		if call.Name != agent.SubagentTool || call.Usage.Input != 200 || deploy.At.Before(call.At) || deploy.EndedAt.After(call.EndedAt) {
			t.Errorf("sub-agent %d: %+v %+v", i, call, deploy)
		}
		if want == "" {
			if deploy.Artifact == nil || len(deploy.Steps) > 0 {
				t.Errorf("the log: %+v", deploy)
			}
			continue
		}
		approval := deploy.Steps[0]
		if got := approval.State + " by " + approval.Name; got != want || approval.At.Before(deploy.At) || !approval.EndedAt.After(approval.At) || approval.EndedAt.After(deploy.EndedAt) {
			t.Errorf("approval %d: %s: %+v in %+v", i, got, approval, deploy)
		}
	}
	if status, body := in.request("GET", "/api/sessions/s/trace?run=r2", ""); status != 404 {
		t.Errorf("a run that does not exist: %d %s", status, body)
	}
}

// A sub-agent in the background that failed says why, and what it cost counts when the dearest step is chosen.
func TestTraceOfSpawn(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := startAgents(t, `
{"text":"I send a helper.","usage":{"input_tokens":10,"output_tokens":1,"cost":0.25},"tools":[{"name":"spawn","input":{"task":"crane four","max_turns":2}}]}
{"text":"It is under way.","usage":{"input_tokens":10,"output_tokens":1,"cost":0.125}}
{"for":"crane four"}
{"text":"I look.","usage":{"input_tokens":10,"output_tokens":1,"cost":0.1875},"tools":[{"name":"grep","input":{"text":"x"}}]}
{"text":"I look again.","usage":{"input_tokens":10,"output_tokens":1,"cost":0.1875},"tools":[{"name":"grep","input":{"text":"y"}}]}
`)
	if err := <-in.prompt("s", "r1", "Look"); err != nil {
		t.Fatal(err)
	}
	b := browse(t, in, 1280, 800)
	b.open("conversations/s/trace/r1", "limit of 2 turns")
	if got := b.text(); !strings.Contains(got, "Dearest: spawn, cost 0.3750") || strings.Contains(got, "report back") {
		t.Errorf("the trace is %s", got)
	}
}

// The times of an axis do not cover each other, on any screen.
func TestAxisOfATrace(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.say("s", `{"run":"r","at":"2026-11-22T04:00:00Z","kind":"user","message":{"role":"user","content":[{"type":"text","text":"go"}]},"call":{"id":"r","session":"s","tool":"agent","args":{}}}`,
		`{"run":"r","at":"2026-11-22T04:00:19Z","kind":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"gone"}]}}`,
		`{"run":"r","at":"2026-11-22T04:00:19Z","kind":"end","end":{"reason":"done"}}`)
	b := browse(t, in, 1440, 900)
	b.open("conversations/s/trace", "gone")
	const times = "[...document.querySelectorAll('.axis span')].filter(s => s.offsetParent).map(s => s.getBoundingClientRect())"
	b.until(times + ".length === 9")
	for _, width := range []int64{768, 390, 320} {
		b.run(chromedp.EmulateViewport(width, 844))
		b.until(times + ".every((s, i, all) => i === 0 || all[i - 1].right < s.left) && " + times + ".length > 2")
	}
}

// accessible runs axe-core, if STEVEDORE_AXE names its file axe.min.js.
func (b *browser) accessible() {
	b.t.Helper()
	file := os.Getenv("STEVEDORE_AXE")
	if file == "" {
		return
	}
	source, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.eval("(() => {" + string(source) + "})()")
	b.eval(`(() => { window.found_ = ""; axe.run(document, { resultTypes: ["violations"] }).then(r => { window.found_ = "axe: " + JSON.stringify(r.violations.map(v => [v.id, v.nodes[0].html, v.nodes[0].failureSummary])) }) })()`)
	b.until(`window.found_ !== ""`)
	if found := b.eval("window.found_"); found != "axe: []" {
		b.t.Error(found)
	}
}

// Logs in which sub-agents start each other without end make a trace that is cut, and runs
// whose results are gone have the times of their log.
func TestTraceOfForgedLogs(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	in := start(t, console.Config{})
	at := time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)
	entry := func(second int, fields string) string {
		return fmt.Sprintf(`{"run":"r","at":%q,%s}`, at.Add(time.Duration(second)*time.Second).Format(time.RFC3339), fields)
	}
	loop := []string{
		entry(0, `"kind":"user","message":{"role":"user","content":[{"type":"text","text":"go"}]},"call":{"id":"r","session":"s","tool":"agent","args":{}}`),
		entry(2, `"kind":"assistant","usage":{"input_tokens":1,"output_tokens":0},"message":{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"subagent","input":{}},{"type":"tool_use","id":"b","name":"subagent","input":{}}]}`),
		entry(5, `"kind":"results","answers":[{"call":"r-t1-0","tool":"subagent","outcome":"completed"},{"call":"nobody","tool":"x","outcome":"completed"}]`),
		`[]`, entry(6, `"kind":"assistant"`), entry(7, `"kind":"results","run":"other"`),
	}
	for _, session := range []string{"s", tools.TokenOf("sub/s/r-t1-0"), tools.TokenOf("sub/s/r-t1-1")} {
		in.say(session, loop...)
	}
	trace := get[agents.Trace](in, "/api/sessions/s/trace")
	count := 0
	var walk func(s *agent.TraceStep)
	walk = func(s *agent.TraceStep) {
		count++
		for _, step := range s.Steps {
			walk(step)
		}
	}
	walk(trace.Run)
	if !trace.Cut || count > 2001 {
		t.Errorf("%d steps, cut: %v", count, trace.Cut)
	}
	turn, call := trace.Run.Steps[0], trace.Run.Steps[1]
	if turn.At != at || turn.EndedAt != at.Add(2*time.Second) || call.At != turn.EndedAt || call.EndedAt != at.Add(5*time.Second) || call.State != string(tools.Completed) {
		body, _ := json.Marshal([]any{turn, call.At, call.EndedAt, call.State})
		t.Errorf("times of the log: %s", body)
	}
}
