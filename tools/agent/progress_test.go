package agent_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// activities collects what a run reports.
type activities struct {
	mu  sync.Mutex
	all []tools.Activity
}

func (a *activities) Report(p tools.Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, p.Activity...)
}

func (*activities) Detach() {}

// A run reports the model's text piece by piece, and each tool call when it starts and
// when it ends.
func TestRunReportsActivity(t *testing.T) {
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.ErrorResult("no")
	}))
	model := parseScript(t, `{"text":"One möment.","tools":[{"name":"say","input":{"text":"hi"}}]}`, `{"text":"done"}`)
	var got activities
	call := tools.Call{ID: "r", Session: "s"}
	if _, err := s.agent(model, agent.Config{}).Run(tools.WithReporter(t.Context(), &got), call, agent.Text("go")); err != nil {
		t.Fatal(err)
	}
	for i := range got.all {
		got.all[i].DurationMS = 0
	}
	id := got.all[2].Call
	want := []tools.Activity{
		{Type: tools.ActivityText, Turn: 1, Text: "One "},
		{Type: tools.ActivityText, Turn: 1, Offset: 4, Text: "möment."},
		{Type: tools.ActivityToolStart, Turn: 1, Call: id, Tool: "say", Args: `{"text":"hi"}`},
		{Type: tools.ActivityToolEnd, Turn: 1, Call: id, Tool: "say", Outcome: tools.Failed},
		{Type: tools.ActivityText, Turn: 2, Text: "done"},
	}
	if !slices.Equal(got.all, want) || id == "" {
		t.Errorf("got  %+v\nwant %+v", got.all, want)
	}
}
