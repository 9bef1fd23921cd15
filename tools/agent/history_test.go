package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A tool returns 5 MB. The next requests are small, and the model finds a needle in
// the artifact by grep and by lines.
func TestNeedleInFiveMegabytes(t *testing.T) {
	const needleLine = 61_803
	var hay strings.Builder
	for line := 1; hay.Len() < 5<<20; line++ {
		if line == needleLine {
			hay.WriteString("here is the needle\nand below it: gold 4711\n")
			line++
			continue
		}
		fmt.Fprintf(&hay, "line %d is nothing but hay, dry and yellow\n", line)
	}
	s := newStage(t, newTool(t, "hay", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.NewToolResult(hay.String())
	}))
	model := &recorder{Provider: parseScript(t,
		asks("hay", `{}`),
		`{"expect":["<knowledge_list","grep_knowledge"],"capture":{"id":"<knowledge id='([^']+)'"},"tools":[{"name":"grep_knowledge","input":{"artifact_id":"${id}","pattern":"needle"}}]}`,
		`{"expect":["Found 1 match"],"capture":{"line":"(?m)^(\\d+): "},"tools":[{"name":"get_knowledge_by_lines","input":{"artifact_id":"${id}","start_line":"${int:line-1}","end_line":"${int:line+1}"}}]}`,
		`{"capture":{"found":"gold (\\d+)"},"text":"Line ${line}: ${found}."}`)}
	o := run(t, s.agent(model, agent.Config{}), "s", "r", "find the needle")
	if want := fmt.Sprintf("Line %d: 4711.", needleLine); o.Reply != want {
		t.Errorf("reply %q, want %q; %v", o.Reply, want, o.Err())
	}
	for i, req := range model.requests {
		if n := size(t, req); n > 8<<10 {
			t.Errorf("request %d has %d bytes", i, n)
		}
	}
}

// Near the context limit the loop offloads results, the oldest first. Results of
// reading tools stay, error marks and the pairing stay, and the model can read an
// offloaded result.
func TestHistoryIsOffloaded(t *testing.T) {
	text := func(n int) string { return fmt.Sprintf("result %d: %s end", n, strings.Repeat("x y ", 2000)) }
	reading := newTool(t, "reading", tools.Idempotent, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
		return tools.NewToolResult("read: " + text(in.N))
	}).(*tools.FuncTool).WithoutOffload()
	s := newStage(t, reading, newTool(t, "say", tools.Idempotent, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
		return &tools.Result{ForLLM: text(in.N), IsError: in.N == 1}
	}))
	lines := []string{asks("reading", `{"n":0}`)}
	for n := 1; n <= 6; n++ {
		lines = append(lines, asks("say", fmt.Sprintf(`{"n":%d}`, n)))
	}
	lines = append(lines, `{"tools":[{"name":"get_knowledge_by_id","input":{"artifact_id":"r-t2-0"}}]}`, `{"expect":["result 1: x y","x y  end"],"text":"done"}`)
	model := &recorder{Provider: parseScript(t, lines...)}
	const budget = 20_000 // tokens; a result has about 3,200
	a := s.agent(model, agent.Config{ContextTokens: budget})
	if o := run(t, a, "s", "r", "go"); o.Reply != "done" {
		t.Fatalf("outcome %+v: %v", o, o.Err())
	}
	for i, req := range model.requests {
		checkPairing(t, req.Messages)
		if n := offload.EstimateTokens(strings.Repeat("x", size(t, req))); n > budget {
			t.Errorf("request %d has about %d tokens", i, n)
		}
	}
	// The offloaded results are the oldest ones and do not come from reading tools.
	// The first time, some results stay.
	stayed := false
	for i, req := range model.requests {
		oldest := true
		for n := 0; 2*n+2 < len(req.Messages); n++ {
			block := req.Messages[2*n+2].Content[0]
			content := string(block.Content)
			offloaded := strings.Contains(content, "Tool result offloaded")
			if isReading := n == 0 || n == 7; offloaded && (isReading || !oldest) {
				t.Errorf("request %d: result %d was offloaded", i, n)
			} else if !isReading {
				oldest = oldest && offloaded
				stayed = stayed || n > 1 && !offloaded && strings.Contains(string(req.Messages[4].Content[0].Content), "offloaded")
			}
			if offloaded && !strings.Contains(content, fmt.Sprintf("r-t%d-0", n+1)) {
				t.Errorf("the reference of result %d does not name it: %s", n, content)
			}
			if block.IsError != (n == 1) {
				t.Errorf("request %d, result %d: is_error %v", i, n, block.IsError)
			}
		}
	}
	if !stayed {
		t.Error("no result was offloaded, or all were")
	}
	last := model.requests[len(model.requests)-1].Messages
	// Offloaded results stay offloaded: the next run starts with the same messages.
	next := &recorder{Provider: model.Provider}
	_, _ = s.agent(next, agent.Config{}).Run(t.Context(), tools.Call{ID: "r2", Session: "s"}, agent.Text("more"))
	if got, want := fmt.Sprint(next.requests[0].Messages[:len(last)]), fmt.Sprint(last); got != want {
		t.Error("the history changed between two runs")
	}
}

// What a tool noted beside its content, such as where it goes on, stays when the content leaves the history: the artifact has
// only the content.
func TestOffloadedHistoryKeepsNotes(t *testing.T) {
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		out := tools.NewOutput(tools.OutputLimits{})
		_, _ = out.Write([]byte(strings.Repeat("é wörd\n", 4000)))
		out.Note("[more lines follow; continue with offset 4001]")
		return &tools.Result{Output: out}
	}))
	model := &recorder{Provider: parseScript(t, asks("say", `{}`), asks("say", `{}`),
		`{"expect":["artifact 'r-t2-0' has 28000 characters"],"text":"done"}`)}
	if o := run(t, s.agent(model, agent.Config{ContextTokens: 25_000}), "s", "r", "go"); o.Reply != "done" {
		t.Fatalf("outcome %+v: %v", o, o.Err())
	}
	for _, n := range []int{2, 4} { // also if the model has not seen the result before
		content := string(model.requests[2].Messages[n].Content[0].Content)
		if !strings.Contains(content, "Tool result offloaded") || !strings.HasSuffix(content, `\n[more lines follow; continue with offset 4001]"`) {
			t.Errorf("the model sees %.300s", content)
		}
	}
}

// overflowing rejects long requests, like a provider that counts more tokens than
// the estimate.
type overflowing struct {
	agent.Provider
	t   *testing.T
	max int
}

func (o overflowing) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	if size(o.t, req) > o.max {
		return agent.Response{}, &agent.ProviderError{Code: agent.CodeContextOverflow, Status: 400, Message: "prompt is too long"}
	}
	return o.Provider.Complete(ctx, req)
}

func TestContextOverflow(t *testing.T) {
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.NewToolResult(strings.Repeat("x y ", 2000))
	}))
	lines := []string{asks("say", `{}`), asks("say", `{}`), asks("say", `{}`), `{"text":"done"}`}
	o := run(t, s.agent(overflowing{parseScript(t, lines...), t, 20_000}, agent.Config{}), "s", "r", "go")
	if o.Reason != agent.Done {
		t.Errorf("outcome %+v: %v", o, o.Err())
	}
	// If nothing can be offloaded, the run fails with the provider's error.
	o = run(t, s.agent(overflowing{parseScript(t, lines...), t, 100}, agent.Config{}), "s2", "r", strings.Repeat("long ", 1000))
	if o.Reason != agent.Failed || tools.CodeOf(o.Err()) != agent.CodeContextOverflow {
		t.Errorf("outcome %+v: %v", o, o.Err())
	}
}
