package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"
	"github.com/stevedore-bus/stevedore/tools"
)

// fakeTool is a Tool whose behaviour a test sets.
type fakeTool struct {
	def     tools.Definition
	execute func(ctx context.Context, call tools.Call) *tools.Result
}

func (f fakeTool) Definition() tools.Definition { return f.def }
func (f fakeTool) Execute(ctx context.Context, call tools.Call) *tools.Result {
	return f.execute(ctx, call)
}

// fakeAsync is an AsyncTool whose behaviour a test sets.
type fakeAsync struct {
	fakeTool
	background func(callback tools.AsyncCallback) *tools.Result
}

func (f fakeAsync) ExecuteAsync(_ context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	return f.background(callback)
}

func named(name string, res *tools.Result) fakeTool {
	return fakeTool{tools.Definition{Name: name}, func(context.Context, tools.Call) *tools.Result { return res }}
}

func TestRegister(t *testing.T) {
	r := tools.NewRegistry(zerolog.Nop())
	if err := r.Register(named("b", nil), named("a", nil)); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(fakeTool{def: tools.Definition{Name: "c", Effect: tools.Keyed, NoOffload: true}}); err != nil {
		t.Fatal(err)
	}
	for name, tool := range map[string]fakeTool{
		"taken":      named("a", nil),
		"no name":    named("", nil),
		"bad name":   named("a.b", nil),
		"long name":  named(strings.Repeat("a", 65), nil),
		"bad schema": {def: tools.Definition{Name: "d", Parameters: &jsonschema.Schema{Ref: "#/nowhere"}}},
	} {
		if err := r.Register(tool); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	var got []string
	for _, def := range r.Definitions() {
		got = append(got, def.Name+" "+string(def.Effect))
		if def.Parameters == nil {
			t.Errorf("%s has no schema", def.Name)
		}
	}
	if s := strings.Join(got, ", "); s != "a once, b once, c keyed" {
		t.Errorf("Definitions = %s", s)
	}
	if def, ok := r.Definition("c"); !ok || !def.NoOffload {
		t.Errorf("Definition(c) = %+v, %v", def, ok)
	}
	if _, ok := r.Definition("d"); ok {
		t.Error("Definition(d): a tool that was refused")
	}
}

func TestRun(t *testing.T) {
	type in struct {
		Path  string `json:"path"`
		Limit int    `json:"limit,omitempty"`
	}
	echo, err := tools.NewTool("echo", "", func(_ context.Context, call tools.Call, in in) *tools.Result {
		return tools.NewToolResult(in.Path)
	})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := tools.NewRegistry(zerolog.New(&log))
	err = r.Register(echo, named("open", tools.NewToolResult("open")), named("nothing", nil), named("bg", tools.AsyncResult("begun")),
		fakeTool{tools.Definition{Name: "panics"}, func(context.Context, tools.Call) *tools.Result { panic("oh no") }})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tool, args, want, code, log string
	}{
		{"echo", `{"path":"x"}`, "x", "", `"message":"tool completed"`},
		{"echo", `{"path":"x","limit":1e1}`, "limit", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"open", ``, "open", "", `"message":"tool completed"`},
		{"open", `null`, "open", "", `"message":"tool completed"`},
		{"open", `{"any":[1]}`, "open", "", `"message":"tool completed"`},
		{"bg", `{}`, "begun", "", `"message":"tool started in background"`},
		{"absent", `{}`, `unknown tool "absent"`, tools.CodeUnknownTool, `"message":"tool failed"`},
		{"", `{}`, `unknown tool ""`, tools.CodeUnknownTool, `"message":"tool failed"`},
		{"echo", ``, "path", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"echo", `{"path":1}`, "string", tools.CodeInvalidArguments, `"code":"invalid_arguments"`},
		{"echo", `{"path":"x","limit":"a secret"}`, `is of the type "string"; want "integer"`, tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"echo", `{"path":"x","limit":1e999}`, "1e999", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"echo", `{"path":"x","PATH":"y"}`, "PATH", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"echo", `[]`, "want a JSON object", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"echo", `{`, "not JSON", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"echo", `{"path":"x"} x`, "not JSON", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"open", strings.Repeat(`{"a":`, 20_000), "not JSON", tools.CodeInvalidArguments, `"message":"tool failed"`},
		{"nothing", `{}`, "returned no result", tools.CodePanic, `"message":"tool failed"`},
		{"panics", `{}`, "panicked: oh no", tools.CodePanic, `"stack":`},
	} {
		log.Reset()
		res := r.Run(t.Context(), tools.Call{ID: "i", Session: "s", Tool: tt.tool, Args: json.RawMessage(tt.args)}, nil)
		code := ""
		if res.IsError {
			code = tools.CodeOf(res.Err)
		}
		if !strings.Contains(res.ForLLM, tt.want) || code != tt.code {
			t.Errorf("%s(%.40s) = %q, code %q; want %q, %q", tt.tool, tt.args, res.ForLLM, code, tt.want, tt.code)
		}
		if got := log.String(); !strings.Contains(got, tt.log) || !strings.Contains(got, `"call":"i"`) || !strings.Contains(got, `"session":"s"`) {
			t.Errorf("%s(%.40s) logged %s, want %s", tt.tool, tt.args, got, tt.log)
		} else if strings.Contains(got, "secret") {
			t.Errorf("%s(%.40s) logged an argument: %s", tt.tool, tt.args, got)
		}
	}
}

// At level info, the log contains neither arguments nor what a tool says about them.
func TestLogWithoutContents(t *testing.T) {
	var log bytes.Buffer
	r := tools.NewRegistry(zerolog.New(&log).Level(zerolog.InfoLevel))
	failing, err := tools.NewTool("failing", "fails", func(context.Context, tools.Call, struct{}) *tools.Result {
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "failed to read file %q", "secret.txt"))
	})
	if err == nil {
		err = r.Register(failing)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Run(t.Context(), tools.Call{ID: "i", Tool: "failing"}, nil)
	if got := log.String(); strings.Contains(got, "secret") || !strings.Contains(got, `"code":"tool_failed"`) {
		t.Errorf("log %s", got)
	}
}

// Each call receives its own completion, once, also if the tool completes it twice or
// with nil.
func TestRunAsync(t *testing.T) {
	r := tools.NewRegistry(zerolog.Nop())
	var jobs sync.WaitGroup
	err := r.Register(fakeAsync{named("bg", tools.NewToolResult("in the foreground")), func(callback tools.AsyncCallback) *tools.Result {
		for range 2 {
			jobs.Go(func() { callback(context.Background(), nil) })
		}
		return tools.AsyncResult("begun")
	}}, fakeAsync{named("panics", nil), func(tools.AsyncCallback) *tools.Result { panic("oh no") }})
	if err != nil {
		t.Fatal(err)
	}
	const calls = 10
	got := make([][]*tools.Result, calls)
	var mu sync.Mutex
	for i := range calls {
		res := r.Run(t.Context(), tools.Call{Tool: "bg"}, func(_ context.Context, res *tools.Result) {
			mu.Lock()
			defer mu.Unlock()
			got[i] = append(got[i], res)
		})
		if !res.Async || res.ForLLM != "begun" {
			t.Errorf("got %+v, want an async result", res)
		}
	}
	jobs.Wait()
	for i, completions := range got {
		if len(completions) != 1 || !completions[0].IsError || tools.CodeOf(completions[0].Err) != tools.CodePanic {
			t.Errorf("call %d has the completions %v, want one failure", i, completions)
		}
	}
	if res := r.Run(t.Context(), tools.Call{Tool: "bg"}, nil); res.Async || res.ForLLM != "in the foreground" {
		t.Errorf("without a callback: %+v", res)
	}
	if res := r.Run(t.Context(), tools.Call{Tool: "panics"}, func(context.Context, *tools.Result) {}); tools.CodeOf(res.Err) != tools.CodePanic {
		t.Errorf("got %+v, want a panic's failure", res)
	}
}
