package toolstest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/toolstest"
)

var shout = tools.MustTool("shout", "Say something loudly.",
	func(_ context.Context, _ tools.Call, in struct {
		Text string `json:"text" jsonschema:"what to shout"`
	}) *tools.Result {
		return tools.NewToolResult(strings.ToUpper(in.Text) + "!")
	})

// recorder records what a test would report.
type recorder struct {
	testing.TB
	reports []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Cleanup(func())           {}
func (r *recorder) Context() context.Context { return context.Background() }
func (r *recorder) Errorf(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) {
	r.reports = append(r.reports, fmt.Sprint(args...))
	panic("fatal")
}

// slow is an async tool.
type slow struct{ tools.Tool }

func (slow) ExecuteAsync(_ context.Context, _ tools.Call, done tools.AsyncCallback) *tools.Result {
	go done(context.Background(), tools.NewToolResult("later"))
	return tools.AsyncResult("started")
}

func TestRun(t *testing.T) {
	if res := toolstest.Run(t, shout, map[string]any{"text": "land ho"}); res.ForLLM != "LAND HO!" {
		t.Errorf("got %+v", res)
	}
	if res := toolstest.Run(t, shout, map[string]any{"txt": "x"}); tools.CodeOf(res.Err) != tools.CodeInvalidArguments {
		t.Errorf("wrong arguments gave %+v", res)
	}
	broken := tools.MustTool("broken", "Panic.", func(context.Context, tools.Call, struct{}) *tools.Result { panic("no") })
	if res := toolstest.Run(t, broken, nil); !res.IsError {
		t.Errorf("a panic gave %+v", res)
	}
	if res := toolstest.Run(t, slow{shout}, map[string]any{"text": "x"}); res.ForLLM != "later" {
		t.Errorf("an async tool gave %+v", res)
	}
}

// definition is a tool of which only the definition matters.
type definition tools.Definition

func (d definition) Definition() tools.Definition                      { return tools.Definition(d) }
func (d definition) Execute(context.Context, tools.Call) *tools.Result { return nil }

func TestCheck(t *testing.T) {
	closed := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, Properties: map[string]*jsonschema.Schema{"a": {Type: "string"}}}
	for _, tt := range []struct {
		def  tools.Definition
		want string
	}{
		{tools.Definition{Name: "a b", Description: "d"}, "the name is not of the form"},
		{tools.Definition{Name: "t", Parameters: closed}, "tool t has no description"},
		{tools.Definition{Name: "t", Description: "d", Parameters: closed}, "argument a of tool t has no description"},
		{tools.Definition{Name: "t", Description: "d", Effect: "twice"}, `unknown effect "twice"`},
		{tools.Definition{Name: "t", Description: "d"}, "ignores unknown arguments"},
	} {
		r := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }() // of Fatal
			toolstest.Check(r, definition(tt.def))
		}()
		if !slices.ContainsFunc(r.reports, func(report string) bool { return strings.Contains(report, tt.want) }) {
			t.Errorf("Check reported %q, want %q", r.reports, tt.want)
		}
	}
	r := &recorder{TB: t}
	toolstest.Check(r, shout)
	if len(r.reports) > 0 {
		t.Errorf("a good tool: %q", r.reports)
	}
}
