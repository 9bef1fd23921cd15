package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/mem"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// The model writes 200,000 characters into a file. The tool gets all of them, the next requests
// are small, and the model can read them back.
func TestLongArgumentsLeaveTheConversation(t *testing.T) {
	t.Parallel()
	type writeArgs struct {
		Path  string   `json:"path"`
		Parts []string `json:"parts"`
	}
	text := strings.Repeat("a long line of a file\n", 9_000) + "the last line"
	var got string
	write, err := tools.NewTool("write", "writes a file", func(_ context.Context, _ tools.Call, in writeArgs) *tools.Result {
		got = in.Parts[0]
		return tools.NewToolResult("written")
	})
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(writeArgs{"a.txt", []string{text, "short"}})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, write)
	model := &recorder{Provider: parseScript(t,
		asks("write", string(input)),
		`{"expect":["written"],"tools":[{"name":"grep_knowledge","input":{"artifact_id":"r-t1-0-arguments","pattern":"the last line"}}]}`,
		`{"expect":["Found 1 match"],"text":"done"}`)}
	if o := run(t, s.agent(model, agent.Config{}), "s", "r", "write"); o.Reply != "done" || got != text {
		t.Fatalf("outcome %+v: %v; the tool got %d characters", o, o.Err(), len(got))
	}
	for i, req := range model.requests {
		checkPairing(t, req.Messages)
		if n := size(t, req); n > 10<<10 {
			t.Errorf("request %d has %d bytes", i, n)
		}
	}
	var shown writeArgs
	if err := json.Unmarshal(model.requests[1].Messages[1].Content[0].Input, &shown); err != nil || shown.Path != "a.txt" || shown.Parts[1] != "short" ||
		!strings.HasPrefix(shown.Parts[0], "a long line") || !strings.Contains(shown.Parts[0], fmt.Sprintf("[%d characters; the whole arguments are the artifact 'r-t1-0-arguments']", len(text))) {
		t.Errorf("the model sees its call as %+v, %v", shown, err)
	}
	// The next run begins with the same messages.
	next := &recorder{Provider: model.Provider}
	_, _ = s.agent(next, agent.Config{}).Run(t.Context(), tools.Call{ID: "r2", Session: "s"}, agent.Text("more"))
	last := model.requests[len(model.requests)-1].Messages
	if got, want := fmt.Sprint(next.requests[0].Messages[:len(last)]), fmt.Sprint(last); got != want {
		t.Error("the history changed between two runs")
	}
}

// Arguments that are long because of many short values leave the conversation, too.
func TestManyShortArguments(t *testing.T) {
	t.Parallel()
	write, err := tools.NewTool("write", "writes rows", func(_ context.Context, _ tools.Call, in struct {
		Rows []int64 `json:"rows"`
		Text string  `json:"text,omitempty"`
	}) *tools.Result {
		return tools.NewToolResult(fmt.Sprint(len(in.Rows), " rows, ", in.Rows[0]))
	})
	if err != nil {
		t.Fatal(err)
	}
	const first = "1234567890123456789" // no float64 has it
	for name, c := range map[string]struct{ input, want string }{
		"many values":  {`{"rows":[` + first + strings.Repeat(",1", 9_999) + `]}`, "start_of_arguments"},
		"a large text": {`{"rows":[` + first + `],"text":"` + strings.Repeat("x", 20_000) + `"}`, `"rows":[` + first + `]`},
	} {
		s := newStage(t, write)
		model := &recorder{Provider: parseScript(t, asks("write", c.input), `{"expect":["`+first+`"],"text":"done"}`)}
		if o := run(t, s.agent(model, agent.Config{}), "s", "r", "write"); o.Reply != "done" {
			t.Fatalf("%s: outcome %+v: %v", name, o, o.Err())
		}
		checkPairing(t, model.requests[1].Messages)
		if shown := string(model.requests[1].Messages[1].Content[0].Input); len(shown) > 2_000 || !strings.Contains(shown, c.want) || !strings.Contains(shown, "artifact 'r-t1-0-arguments'") {
			t.Errorf("%s: the model sees %.3000s", name, shown)
		}
	}
}

// A long message of the user becomes a reference with its start and its end.
func TestLongPromptLeavesTheConversation(t *testing.T) {
	t.Parallel()
	prompt := "please read\n" + strings.Repeat("hay, dry and yellow\n", 15_000) + "the needle is gold\n" + strings.Repeat("hay\n", 15_000) + "thank you"
	s := newStage(t)
	model := &recorder{Provider: parseScript(t,
		`{"tools":[{"name":"grep_knowledge","input":{"artifact_id":"r-prompt-0","pattern":"the needle is"}}]}`,
		`{"expect":["the needle is gold"],"text":"done"}`)}
	if o := run(t, s.agent(model, agent.Config{}), "s", "r", prompt); o.Reply != "done" {
		t.Errorf("outcome %+v: %v", o, o.Err())
	}
	first := model.requests[0].Messages[0].Content[0].Text
	if len(first) > 5_000 || !strings.Contains(first, "please read\n") || !strings.Contains(first, "thank you") {
		t.Errorf("the message is %.3000q", first)
	}
}

// Without a store, or if it is full, the texts stay.
func TestLongTextsWithoutStore(t *testing.T) {
	t.Parallel()
	for name, offloader := range map[string]*offload.Offloader{
		"none": agent.NewHistoryOffloader(nil), "full": agent.NewHistoryOffloader(mem.New(offload.StoreConfig{Quota: 10})),
	} {
		s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result { return tools.NewToolResult("said") }))
		model := &recorder{Provider: parseScript(t, asks("say", fmt.Sprintf(`{"n":1,"text":"%s"}`, strings.Repeat("x", 3*10_000))), `{"text":"done"}`)}
		prompt := strings.Repeat("long ", 10_000)
		if o := run(t, s.agent(model, agent.Config{Offloader: offloader}), "s", "r", prompt); o.Reply != "done" {
			t.Errorf("%s: outcome %+v: %v", name, o, o.Err())
		}
		if last := model.requests[len(model.requests)-1].Messages; last[0].Content[0].Text != prompt || len(last[1].Content[0].Input) < 30_000 {
			t.Errorf("%s: a text was cut", name)
		}
	}
}
