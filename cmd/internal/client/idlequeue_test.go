package client

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/bus/rpc"
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
