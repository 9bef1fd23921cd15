// Package toolstest runs and checks tools in tests, as a worker does. It needs no bus:
//
//	func TestShout(t *testing.T) {
//		toolstest.Check(t, shout)
//		if res := toolstest.Run(t, shout, map[string]any{"text": "land ho"}); res.ForLLM != "LAND HO!" {
//			t.Errorf("got %q, %v", res.ForLLM, res.Err)
//		}
//	}
package toolstest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
)

// Run runs one call of a tool and returns its result, which the test need not close. args is
// encoded as JSON, and must fit the schema as a model's arguments must: the result of a wrong
// call, and of a panic, has IsError and a code (tools.CodeOf). Of an async result, Run waits for
// the completion and returns that.
func Run(t testing.TB, tool tools.Tool, args any) *tools.Result {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(tool); err != nil {
		t.Fatal(err)
	}
	completion := make(chan *tools.Result, 1) // the registry passes on one
	call := tools.Call{ID: "call-1", Session: "test", Tool: tool.Definition().Name, Args: data}
	result := registry.Run(t.Context(), call, func(_ context.Context, r *tools.Result) { completion <- r })
	if _, async := tool.(tools.AsyncTool); async && result.Async {
		result = <-completion
	}
	t.Cleanup(func() { _ = result.Close() }) // of a temporary file
	return result
}

// Check reports what a model or a worker would misunderstand: a name or a schema that cannot be
// registered, a tool or an argument without a description, an unknown effect, and unknown
// arguments that the tool would ignore.
func Check(t testing.TB, tool tools.Tool) {
	t.Helper()
	def := tool.Definition()
	if def.Description == "" {
		t.Errorf("tool %s has no description", def.Name)
	}
	if !slices.Contains([]tools.Effect{"", tools.Once, tools.Keyed, tools.Idempotent}, def.Effect) {
		t.Errorf("tool %s has the unknown effect %q", def.Name, def.Effect)
	}
	if def.Parameters != nil {
		for name, argument := range def.Parameters.Properties {
			if argument.Description == "" {
				t.Errorf("argument %s of tool %s has no description", name, def.Name)
			}
		}
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(tool); err != nil {
		t.Fatal(err)
	}
	wrong := tools.Call{Tool: def.Name, Args: json.RawMessage(`{"no_such_argument":1}`)}
	if tools.CodeOf(registry.Check(wrong)) != tools.CodeInvalidArguments {
		t.Errorf("tool %s ignores unknown arguments: its schema needs additionalProperties: false", def.Name)
	}
}
