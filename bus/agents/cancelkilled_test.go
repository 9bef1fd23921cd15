package agents

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A run whose worker was killed, and that is cancelled before another worker continues it, is cancelled with its calls:
// those of a sub-agent, too, whether the same worker had it or another one.
func TestCancelOfARunWhoseWorkerWasKilled(t *testing.T) {
	const tool = `{"tools":[{"name":"block"}]}`
	const subagent = `{"tools":[{"name":"subagent","input":{"task":"child"}}]}`
	const background = `{"tools":[{"name":"spawn","input":{"task":"child"}}]}`
	for name, test := range map[string]struct {
		turn   string
		child  string   // tool that starts a sub-agent
		killed []string // queues of the worker that is killed
		cancel string   // the call that is cancelled
		next   bool     // another prompt of the session ends the run first
	}{
		"a tool":                              {turn: tool, killed: Queues(1), cancel: "r"},
		"a tool, and another prompt":          {turn: tool, killed: Queues(1), cancel: "r", next: true},
		"a sub-agent":                         {turn: subagent, child: agent.SubagentTool, killed: Queues(1), cancel: "r"},
		"a sub-agent whose worker was killed": {turn: subagent, child: agent.SubagentTool, killed: Queues(1)[1:], cancel: "r"},
		"a background task":                   {turn: background, child: agent.SpawnTool, killed: []string{bus.DefaultQueue}, cancel: "r-t1-0"},
		"a background task whose sub-agent's worker was killed": {turn: background, child: agent.SpawnTool, killed: Queues(1)[1:], cancel: "r-t1-0"},
	} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				server := bustest.Server(t)
				b := bustest.Connect(t, server, bus.Config{Log: bustest.Log(t)})
				started := make(chan struct{}, 2)
				block, err := tools.NewTool("block", "blocks", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result {
					started <- struct{}{}
					<-ctx.Done()
					return tools.Failure(context.Cause(ctx))
				})
				if err != nil {
					t.Fatal(err)
				}
				block = block.WithEffect(tools.Idempotent)
				model := newUnreliable(t, overloaded, time.Time{}, test.turn, `{"for":"child"}`, `{"tools":[{"name":"block"}]}`)
				for _, queue := range append(Queues(1), bus.DefaultQueue) {
					if !slices.Contains(test.killed, queue) {
						startWorker(t, server, model, block, queue)
					}
				}
				kill := startWorker(t, server, model, block, test.killed...)
				if _, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt("s", "r", "go")); err != nil {
					t.Fatal(err)
				}
				<-started
				kill()
				if _, err := task.Cancel(t.Context(), b, "s", test.cancel, "a test"); err != nil {
					t.Fatal(err)
				}
				if test.next {
					end, err := json.Marshal(agent.Entry{Kind: agent.KindEnd, Run: "r", End: &agent.Outcome{Reason: agent.Cancelled}})
					_, last, readErr := session.New(b).Read(t.Context(), "s", 0)
					if err == nil && readErr == nil {
						_, err = session.New(b).Append(t.Context(), "s", last, end)
					}
					if err != nil || readErr != nil {
						t.Fatal(err, readErr)
					}
				}
				startWorker(t, server, model, block, test.killed...)
				blocked := tools.CallKey{Session: "s", ID: "r-t1-0"}
				if child, ok := agent.ChildCall(tools.Call{ID: "r-t1-0", Session: "s", Tool: test.child}); ok {
					blocked = tools.CallKey{Session: tools.TokenOf(agent.SubagentSession(child)), ID: tools.Token(tools.Token(child.IDToken() + "-t1-0"))}
				}
				bustest.WaitUntil(t, "the end of the tool", func() bool {
					got, err := task.Get(t.Context(), b, blocked.Session, blocked.ID)
					return err == nil && got.State == task.Cancelled
				})
			})
		})
	}
}

// startWorker starts a worker with a connection of its own. kill ends that connection first.
func startWorker(t *testing.T, server *embedded.Server, model agent.Provider, block tools.Tool, queues ...string) (kill func()) {
	t.Helper()
	b := bustest.Dial(t, server, bus.Config{Log: bustest.Log(t)})
	registry := tools.NewRegistry(bustest.Log(t))
	setup := NewToolsConfig(b, mem.New(offload.StoreConfig{}), bustest.Log(t))
	setup.Definitions, setup.DefaultModel, setup.Models = registry.Definitions, "m", map[string]agent.Provider{"m": model}
	agents, err := agent.Tools(setup)
	if err == nil {
		err = registry.Register(append(agents, block)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w := worker.New(b, registry, offload.NewOffloader(mem.New(offload.StoreConfig{}), offload.Config{}), worker.Config{Queues: queues, Log: bustest.Log(t)})
	go func() { defer close(done); _ = w.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return func() { b.Conn().Close(); stop() }
}
