package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
)

// This program runs a tool of its own, with the bus in the same process. To run the
// tool in addition to "stevedore up", connect with bus.Config{Server: URL} instead and
// use a queue of your own: a worker runs all calls of its queues, and a call of a
// tool that it lacks fails as unknown.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "stevedore-example-")
	check(err)
	defer os.RemoveAll(dir)

	server, err := embedded.Start(embedded.Config{Dir: dir})
	check(err)
	defer server.Close()
	b, err := bus.Connect(ctx, server.ClientConfig(bus.Config{}))
	check(err)
	defer b.Close()
	_, err = admin.Provision(ctx, b, admin.Nothing)
	check(err)

	shout, err := tools.NewTool("shout", "Say something loudly.",
		func(_ context.Context, _ tools.Call, in struct {
			Text string `json:"text" jsonschema:"what to shout"`
		}) *tools.Result {
			return tools.NewToolResult(strings.ToUpper(in.Text) + "!")
		})
	check(err)
	registry := tools.NewRegistry(zerolog.Nop())
	check(registry.Register(shout.WithEffect(tools.Idempotent)))

	store, err := object.Open(ctx, b.JetStream(), object.Config{})
	check(err)
	w := worker.New(b, registry, offload.NewOffloader(store, offload.Config{}), worker.Config{})
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()

	event, err := rpc.Submit(ctx, b, bus.DefaultQueue, tools.Call{
		Session: "s1", Tool: "shout", Args: json.RawMessage(`{"text": "land ho"}`),
	})
	check(err)
	fmt.Println(event.Outcome, event.ForLLM)
	stop()
	check(<-ended)
	// Output: completed LAND HO!
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
