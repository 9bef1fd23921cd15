package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// Each of the definitions of a tool gets the arguments as they were given, and not as an earlier one
// has converted them.
func TestArgumentsOfSeveralDefinitions(t *testing.T) {
	definition := func(schema string) (info rpc.ToolInfo) {
		info.Name, info.Parameters = "t", new(jsonschema.Schema)
		if err := json.Unmarshal([]byte(schema), info.Parameters); err != nil {
			t.Fatal(err)
		}
		return info
	}
	number := definition(`{"type":"object","properties":{"x":{"type":"number"},"y":{}},"required":["y"]}`)
	null := definition(`{"type":"object","properties":{"x":{"type":["string","null"]}},"required":["x"]}`)
	call := tools.Call{Tool: "t", Args: json.RawMessage(`{"x":null}`)}
	if err := checkArgs(new(cli.Connection), []rpc.ToolInfo{number, null}, &call); err != nil {
		t.Error(err)
	}
	if checkArgs(new(cli.Connection), []rpc.ToolInfo{number}, &call) == nil {
		t.Error("no error if no definition accepts the arguments")
	}
}

// A worker that answers after more than a second offers its tools all the same.
func TestToolOfASlowWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		worker := b.WorkerConsumer(bus.DefaultQueue)
		bustest.Consumers(t, b, worker)
		pulled, err := b.Conn().SubscribeSync(nats.NewInbox()) // it waits for calls
		if err != nil {
			t.Fatal(err)
		}
		pull := b.API().Subject("CONSUMER.MSG.NEXT." + b.StreamName(worker.Stream) + "." + worker.Name)
		if err := b.Conn().PublishRequest(pull, pulled.Subject, []byte(`{"batch":1,"expires":600000000000}`)); err != nil {
			t.Fatal(err)
		}
		stop, err := task.AnswerAll(b, zerolog.Nop(), b.RPC("offer"), func(*nats.Msg) any {
			time.Sleep(1200 * time.Millisecond)
			return tools.Offer{Worker: "slow", Queues: []string{bus.DefaultQueue}, Tools: []tools.OfferedTool{{Name: "echo"}}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		defer time.Sleep(time.Minute) // its last answers end
		for tool, want := range map[string]bool{"echo": true, "echoo": false} {
			warning, err := CheckTool(t.Context(), b, new(cli.Connection), bus.DefaultQueue, &tools.Call{Tool: tool, Args: json.RawMessage("{}")})
			if warning != "" || (err == nil) != want {
				t.Errorf("%s: %q, %v", tool, warning, err)
			}
		}
	})
}
