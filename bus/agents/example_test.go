package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// script stands for a model. A program opens one with provider.Open instead, for example
// "anthropic:MODEL".
const script = `
{"tools": [{"name": "tide", "input": {"port": "Cuxhaven"}}]}
{"text": "It is high water in Cuxhaven at 14:10."}`

// This program is an agent with a tool of its own. The conversation and each call are
// stored: if the process dies, another one continues the run.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b, store, closeServer := openBus(ctx)
	defer closeServer()

	tide := tools.MustTool("tide", "Tell the time of the next high water of a port.",
		func(_ context.Context, _ tools.Call, in struct {
			Port string `json:"port"`
		}) *tools.Result {
			return tools.NewToolResult("high water in " + in.Port + ": 14:10")
		})
	registry := tools.NewRegistry(zerolog.Nop())
	check(registry.Register(tide.WithEffect(tools.Idempotent)))

	model, err := provider.ParseScript([]byte(script))
	check(err)
	setup := agents.NewToolsConfig(b, store, zerolog.Nop())
	setup.Models, setup.DefaultModel = map[string]agent.Provider{"demo": model}, "demo"
	setup.Definitions = registry.Definitions
	setup.Config.System = "You answer questions of sailors."
	agentTools, err := agent.Tools(setup)
	check(err)
	check(registry.Register(agentTools...))

	w := worker.New(b, registry, offload.NewOffloader(store, offload.Config{}),
		worker.Config{Queues: slices.Concat([]string{bus.DefaultQueue}, agents.Queues(2))})
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()

	answer, err := rpc.Submit(ctx, b, bus.AgentQueue, tools.Call{
		Session: "s1", Tool: agent.AgentTool, Args: json.RawMessage(`{"prompt": "When is high water in Cuxhaven?"}`),
	})
	check(err)
	fmt.Println(answer.ForLLM)
	stop()
	check(<-ended)
	// Output: It is high water in Cuxhaven at 14:10.
}

// openBus starts a server in this process and connects to it.
func openBus(ctx context.Context) (*bus.Bus, offload.Store, func()) {
	dir, err := os.MkdirTemp("", "stevedore-example-")
	check(err)
	server, err := embedded.Start(embedded.Config{Dir: dir})
	check(err)
	b, err := bus.Connect(ctx, server.ClientConfig(bus.Config{}))
	check(err)
	_, err = admin.Provision(ctx, b, admin.Nothing)
	check(err)
	store, err := object.Open(ctx, b.JetStream(), object.Config{})
	check(err)
	return b, store, func() {
		b.Close()
		server.Close()
		os.RemoveAll(dir)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
