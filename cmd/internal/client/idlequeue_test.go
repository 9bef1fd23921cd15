package client

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

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

// Workers that stand still listen and do not answer. They are not said to be missing, or to lack a tool.
func TestWorkersThatStandStill(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		bustest.Subscribe(t, b, b.RPC("offer"))
		warning, err := CheckTool(t.Context(), b, new(cli.Connection), "q", &tools.Call{Tool: "x"})
		if err != nil || !strings.HasPrefix(warning, "the tool and its arguments were not checked: no worker answered in time") {
			t.Errorf("check of a tool: %q, %v", warning, err)
		}
		warned := make(chan error, 1)
		defer WarnIfNoWorker(t.Context(), b, "q", func(_ context.Context, silent error) { warned <- silent })()
		if silent := <-warned; !errors.Is(silent, task.ErrSilent) {
			t.Errorf("the warning has the error %v", silent)
		}
	})
}
