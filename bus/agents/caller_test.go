package agents

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// startAgents runs a worker with scripted agents until the test ends.
func startAgents(t *testing.T, b *bus.Bus, slots int, toolset []tools.Tool, lines ...string) {
	t.Helper()
	script, err := provider.ParseScript([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	startModel(t, b, script, worker.Config{Slots: slots}, toolset...)
}

// startModel runs a worker with agents of a model until stop is called or the test ends.
func startModel(t *testing.T, b *bus.Bus, model agent.Provider, cfg worker.Config, toolset ...tools.Tool) (stop func()) {
	t.Helper()
	return startModelWith(t, b, mem.New(offload.StoreConfig{}), model, cfg, toolset...)
}

func startModelWith(t *testing.T, b *bus.Bus, store offload.Store, model agent.Provider, cfg worker.Config, toolset ...tools.Tool) (stop func()) {
	t.Helper()
	return startSteps(t, b, store, model, cfg, func(string) {}, toolset...)
}

// startSteps starts a worker that calls onStep before each step.
func startSteps(
	t *testing.T, b *bus.Bus, store offload.Store, model agent.Provider, cfg worker.Config, onStep func(string), toolset ...tools.Tool,
) (stop func()) {
	t.Helper()
	registry := tools.NewRegistry(zerolog.Nop())
	setup := NewToolsConfig(b, store, bustest.Log(t))
	setup.Definitions, setup.DefaultModel, setup.Models = registry.Definitions, "m", map[string]agent.Provider{"m": model}
	if m, ok := model.(*unreliable); ok {
		setup.Config.OutageTimeout = m.timeout
	}
	setup.Config.PollInterval = 20 * time.Millisecond
	agents, err := agent.Tools(setup)
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Register(append(toolset, agents...)...); err != nil {
		t.Fatal(err)
	}
	cfg.Queues, cfg.Log = append([]string{bus.DefaultQueue}, Queues(2)...), bustest.Log(t)
	w := worker.New(b, registry, offload.NewOffloader(store, offload.Config{}), cfg)
	return bustest.Run(t, func(ctx context.Context) error { return w.Run(tracing.OnStep(ctx, onStep)) })
}

func prompt(session, id, text string) tools.Call {
	args, _ := json.Marshal(map[string]string{"prompt": text}) // strings always encode
	return tools.Call{ID: id, Session: session, Tool: agent.AgentTool, Args: args}
}

// An agent reads the artifacts of its sub-agents, and nobody else does.
func TestArtifactsOfSubagents(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	big, err := tools.NewTool("big", "For the test.", func(context.Context, tools.Call, struct{}) *tools.Result {
		return tools.NewToolResult("needle\n" + strings.Repeat("hay stack\n", 10_000))
	})
	if err != nil {
		t.Fatal(err)
	}
	script, err := provider.ParseScript([]byte(`{"tools":[{"name":"get_knowledge_by_id","input":{"artifact_id":"stolen"}}]}
{"expect":["there is no artifact"],"text":"nothing"}
{"for":"^parent"}
{"tools":[{"name":"subagent","input":{"task":"child"}}]}
{"capture":{"id":"artifact (\\S+)"},"tools":[{"name":"get_knowledge_by_id","input":{"artifact_id":"${id}"}}]}
{"expect":["needle"],"text":"found"}
{"for":"^child"}
{"tools":[{"name":"big"}]}
{"capture":{"id":"knowledge id='([^']+)'"},"text":"artifact ${id}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New(offload.StoreConfig{})
	reader := offload.NewReader(store, offload.ReaderConfig{SubSessions: SubSessions(b)})
	startModelWith(t, b, store, script, worker.Config{}, append(reader.Tools(), big)...)
	event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", "r", "parent"))
	if err != nil || event.ForLLM != "found" {
		t.Errorf("the parent: %q, %v", event.ForLLM, err)
	}
	for rec, err := range store.List(t.Context(), "") {
		if _, got := reader.Record(t.Context(), "s", rec.ID); err != nil || got != nil {
			t.Errorf("the session does not read %q: %v, %v", rec.ID, err, got)
		}
		if _, got := reader.Record(t.Context(), "other", rec.ID); tools.CodeOf(got) != tools.CodeNotFound {
			t.Errorf("another session reads %q: %v", rec.ID, got)
		}
		if _, got := reader.Delete(t.Context(), "s", rec.ID); tools.CodeOf(got) != tools.CodeNotFound {
			t.Errorf("the session deletes %q of its sub-agent: %v", rec.ID, got)
		}
	}
}

// Cancelling a run also cancels the call that the run waits for.
func TestCancelAgent(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	started := make(chan string, 1)
	block, err := tools.NewTool("block", "blocks", func(ctx context.Context, call tools.Call, _ struct{}) *tools.Result {
		started <- call.ID
		<-ctx.Done()
		return tools.Failure(context.Cause(ctx))
	})
	if err != nil {
		t.Fatal(err)
	}
	startAgents(t, b, 8, []tools.Tool{block}, `{"tools":[{"name":"block"}]}`, `{"text":"after all"}`)
	inner := bustest.Subscribe(t, b, "stevedore.result.s.r1-t1-0")
	answer := make(chan tools.ResultEvent, 1)
	go func() {
		event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", "r1", "go"))
		if err != nil {
			t.Error(err)
		}
		answer <- event
	}()
	if id := <-started; id != "r1-t1-0" {
		t.Errorf("the call's id is %q", id)
	}
	if err := task.RecordCancellation(t.Context(), b, "s", "r1"); err != nil {
		t.Fatal(err)
	}
	call, _ := bustest.Next[tools.ResultEvent](t, inner)
	for _, event := range []tools.ResultEvent{<-answer, call} {
		if event.Outcome != tools.Cancelled {
			t.Errorf("%s: outcome %s (%s)", event.ID, event.Outcome, event.ForLLM)
		}
	}
	// The session is free, and the model gets the error of the call.
	event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", "r2", "still there?"))
	if err != nil || event.ForLLM != "after all" {
		t.Errorf("the next message: %+v, %v", event, err)
	}
}

// A run that makes progress does not become a dead letter after many deliveries; a run
// without progress does.
func TestRunWithProgressIsNotDeadLetter(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		begun := prompt("s", "r", "go")
		last := uint64(0)
		for _, e := range []agent.Entry{
			{Kind: agent.KindUser, Run: "r", Call: &begun, Message: &agent.Message{Role: agent.RoleUser, Content: []agent.Block{agent.Text("go")}}},
			{Kind: agent.KindAssistant, Run: "r", Message: &agent.Message{Role: agent.RoleAssistant, Content: []agent.Block{agent.ToolUse("1", "nosuch", nil)}}},
		} {
			e.At = time.Now()
			body, err := bus.Encode(e)
			if err == nil {
				last, err = session.New(b).Append(t.Context(), "s", last, body)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, call := range []tools.Call{begun, prompt("s2", "r", "go")} {
			body, err := bus.Encode(call)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.CallSubject(b, bus.AgentQueue, agent.AgentTool, body), Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		bustest.Fail(t, b, bus.AgentQueue, 7)
		for range 7 { // the first start is not recorded
			if err := task.CountStart(t.Context(), b, tools.CallKey{Session: "s2", ID: "r"}, 1); err != nil {
				t.Fatal(err)
			}
		}
		results := bustest.Subscribe(t, b, "stevedore.result.*.r")
		startAgents(t, b, 8, nil, `{"text":"never"}`, `{"text":"the end"}`)
		for range 2 {
			event, _ := bustest.Next[tools.ResultEvent](t, results)
			want := map[string]tools.Outcome{"s": tools.Completed, "s2": tools.Failed}[event.Session]
			if event.Outcome != want || (event.ForLLM == "the end") != (want == tools.Completed) {
				t.Errorf("%s: %s, %q; want %s", event.Session, event.Outcome, event.ForLLM, want)
			}
		}
	})
}

// Agents that wait for sub-agents that wait for tools need only one slot per queue.
func TestSlotsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	leaf, err := tools.NewTool("leaf", "is deep down", func(context.Context, tools.Call, struct{}) *tools.Result { return tools.NewToolResult("leaf") })
	if err != nil {
		t.Fatal(err)
	}
	startAgents(t, b, 1, []tools.Tool{leaf.WithEffect(tools.Idempotent)},
		`{"tools":[{"name":"subagent","input":{"task":"child"}},{"name":"subagent","input":{"task":"child"}}]}`,
		`{"expect":["ripe"],"text":"done"}`,
		`{"for":"^child"}`,
		`{"tools":[{"name":"subagent","input":{"task":"grandchild"}},{"name":"leaf"}]}`,
		`{"expect":["green","leaf"],"text":"ripe"}`,
		`{"for":"^grandchild"}`,
		`{"tools":[{"name":"leaf"}]}`, `{"text":"green"}`)
	answers := make(chan string, 3)
	for _, session := range []string{"s1", "s2", "s3"} {
		go func() {
			event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt(session, "r", "go"))
			if err != nil {
				t.Error(err)
			}
			answers <- event.ForLLM
		}()
	}
	for range 3 {
		if got := <-answers; got != "done" {
			t.Errorf("answer %q", got)
		}
	}
}

// Prompts that wait for an earlier run of their session take no slots.
func TestWaitingMessagesHoldNoSlot(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	started, release := make(chan struct{}), make(chan struct{})
	block, err := tools.NewTool("block", "blocks", func(context.Context, tools.Call, struct{}) *tools.Result {
		close(started)
		<-release
		return tools.NewToolResult("released")
	})
	if err != nil {
		t.Fatal(err)
	}
	startAgents(t, b, 2, []tools.Tool{block}, `{"tools":[{"name":"block"}]}`, `{"text":"first"}`, `{"text":"second"}`, `{"text":"third"}`,
		`{"for":"^other"}`, `{"text":"hello"}`)
	answers := make(chan string, 4)
	say := func(session, id, text string) {
		go func() {
			event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt(session, id, text))
			if err != nil {
				t.Error(err)
			}
			answers <- event.ForLLM
		}()
	}
	say("s", "r1", "go")
	<-started
	for _, id := range []string{"r2", "r3"} {
		say("s", id, "and?")
		for alive := false; !alive; {
			if alive, err = (busCaller{bus: b}).alive(t.Context(), tools.CallKey{Session: "s", ID: id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	say("s2", "r", "other")
	if got := <-answers; got != "hello" {
		t.Errorf("the other session's answer is %q", got)
	}
	close(release)
	got := map[string]bool{}
	for range 3 {
		got[<-answers] = true
	}
	if !got["first"] || !got["second"] || !got["third"] {
		t.Errorf("answers %v", got)
	}
}
