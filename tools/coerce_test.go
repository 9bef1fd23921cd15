package tools_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
)

// The registry accepts arguments in the forms that models write.
func TestCoercedArguments(t *testing.T) {
	type in struct {
		ID     string            `json:"id"`
		N      int64             `json:"n,omitempty"`
		F      float64           `json:"f,omitempty"`
		Flag   bool              `json:"flag,omitempty"`
		List   []string          `json:"list,omitempty"`
		Filter map[string]string `json:"filter,omitempty"`
	}
	tool, err := tools.NewTool("t", "d", func(_ context.Context, _ tools.Call, in in) *tools.Result {
		data, err := json.Marshal(in)
		if err != nil {
			return tools.Failure(err)
		}
		return tools.NewToolResult(string(data))
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(tool.Leniently(map[string]string{"name": "id"})); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"id":"a","n":"5"}`:                  `{"id":"a","n":5}`,
		`{"id":"a","n":5.0}`:                  `{"id":"a","n":5}`,
		`{"id":"a","n":"-3"}`:                 `{"id":"a","n":-3}`,
		`{"id":7,"f":"1.5","flag":"true"}`:    `{"id":"7","f":1.5,"flag":true}`,
		`{"name":"a","n":null}`:               `{"id":"a"}`,
		`{"id":"a","filter":"{\"k\":\"v\"}"}`: `{"id":"a","filter":{"k":"v"}}`,
		`{"id":"a","list":"[\"x\"]"}`:         `{"id":"a","list":["x"]}`,
		`{"id":["a"],"list":"x, [y]"}`:        `{"id":"a","list":["x, [y]"]}`,
		`{"id":["\u001b\udb40\udc41"]}`:       `{"id":"\u001b` + "\U000e0041\"}",
		`"{\"id\":\"a\"}"`:                    `{"id":"a"}`,
		`{"id":"a","name":"a","flag":1}`:      `{"id":"a","flag":true}`,
		`{"id":null,"name":"a","flag":"yes"}`: `{"id":"a","flag":true}`,
		`{"id":"5","n":12}`:                   `{"id":"5","n":12}`,
	} {
		if res := registry.Run(t.Context(), tools.Call{ID: "1", Tool: "t", Args: []byte(args)}, nil); res.ForLLM != want {
			t.Errorf("%s gives %s, want %s", args, res.ForLLM, want)
		}
	}
	for args, want := range map[string]string{
		`{"id":null}`:                   `arguments of t: the argument "id" is required, but it is null; want "string"`,
		`{"name":null,"n":1}`:           `the argument "id" is required, but it is null`,
		`{"name":"a","n":"five"}`:       `the argument "n" is of the type "string"; want "integer"`,
		`{"id":"a","n":1e30,"other":1}`: `["other"]`,
		`{"id":"a","list":{"x":1}}`:     `the argument "list" is of the type "object"; want "array"`,
		`{"id":"a","list":[null]}`:      `null has type "null", want "string"`,
		`{"name":"a","other":1}`:        `["other"]`,
		`{}`:                            `missing properties: ["id"]`,
	} {
		res := registry.Run(t.Context(), tools.Call{ID: "1", Tool: "t", Args: []byte(args)}, nil)
		if !strings.Contains(res.ForLLM, want) || tools.CodeOf(res.Err) != tools.CodeInvalidArguments {
			t.Errorf("%s gives %s, want %s", args, res.ForLLM, want)
		}
	}
	for _, args := range []string{
		`{"id":"a","n":"five"}`, `{"id":"a","n":1.5}`, `{"n":1}`, `{"id":"a","other":1}`, `{"id":null}`, `{"id":{}}`, `{"id":"a","flag":"maybe"}`, `{"id":"a","n":"1e400"}`, `[]`, `"x"`,
		`{"id":"a","n":"99999999999999999999999999999999"}`, `{"id":"a","f":"true"}`,
	} {
		if res := registry.Run(t.Context(), tools.Call{ID: "1", Tool: "t", Args: []byte(args)}, nil); tools.CodeOf(res.Err) != tools.CodeInvalidArguments {
			t.Errorf("%s gives %+v, want invalid arguments", args, res)
		}
	}
}
