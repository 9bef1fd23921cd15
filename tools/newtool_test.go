package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stevedore-bus/stevedore/tools"
)

func ExampleNewTool() {
	type args struct {
		Text  string `json:"text" jsonschema:"what to shout"`
		Times int    `json:"times,omitempty" jsonschema:"how often; default once"`
	}
	shout, err := tools.NewTool("shout", "Say something loudly.",
		func(ctx context.Context, call tools.Call, in args) *tools.Result {
			return tools.UserResult(strings.Repeat(strings.ToUpper(in.Text)+"!", max(in.Times, 1)))
		})
	if err != nil {
		panic(err)
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(shout.WithEffect(tools.Idempotent)); err != nil {
		panic(err)
	}
	for _, args := range []string{`{"text": "land ho", "times": 2}`, `{"txt": "land ho"}`} {
		res := registry.Run(context.Background(), tools.Call{ID: "1", Tool: "shout", Args: json.RawMessage(args)}, nil)
		fmt.Println(res.IsError, res.ForLLM)
	}
	// Output:
	// false LAND HO!LAND HO!
	// true arguments of shout: unexpected arguments ["txt"] (did you mean "text"?); known are text, times
}

func TestNewTool(t *testing.T) {
	type in struct {
		Path string          `json:"path" jsonschema:"where"`
		Any  json.RawMessage `json:"any,omitempty"`
	}
	var got in
	tool, err := tools.NewTool("t", "d", func(_ context.Context, call tools.Call, in in) *tools.Result {
		got = in
		return tools.NewToolResult(call.ID)
	})
	if err != nil {
		t.Fatal(err)
	}
	def := tool.WithoutOffload().Definition()
	if def.Name != "t" || def.Description != "d" || def.Effect != tools.Once || !def.NoOffload {
		t.Errorf("definition = %+v", def)
	}
	schema, err := json.Marshal(def.Parameters)
	want := `{"type":"object","properties":{"path":{"type":"string","description":"where"},"any":true},"required":["path"],"additionalProperties":false}`
	if err != nil || string(schema) != want {
		t.Errorf("schema = %s, %v; want %s", schema, err, want)
	}
	for _, raw := range []string{`{"b":[1.50]}`, `"x"`, `null`} {
		res := tool.Execute(t.Context(), tools.Call{ID: "1", Args: json.RawMessage(`{"path":"p","any":` + raw + `}`)})
		if res.ForLLM != "1" || got.Path != "p" || string(got.Any) != raw {
			t.Errorf("any %s: got %+v, %+v", raw, res, got)
		}
	}
	if res := tool.Execute(t.Context(), tools.Call{Args: json.RawMessage(`{"path":1}`)}); tools.CodeOf(res.Err) != tools.CodeInvalidArguments {
		t.Errorf("without a registry, bad arguments: %+v", res)
	}
	if res := tool.WithEffect(tools.Keyed); res.Definition().Effect != tools.Keyed {
		t.Error("WithEffect did not set the effect")
	}
	if _, err := tools.NewTool("t", "", func(context.Context, tools.Call, struct{ C chan int }) *tools.Result { return nil }); err == nil {
		t.Error("arguments that JSON cannot hold: no error")
	}
}
