package agent_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		return tools.ErrorResult("no\nmore")
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
		{Type: tools.ActivityToolEnd, Turn: 1, Call: id, Tool: "say", Outcome: tools.Failed, Text: "no"},
		{Type: tools.ActivityText, Turn: 2, Text: "done"},
	}
	if !slices.Equal(got.all, want) || id == "" {
		t.Errorf("got  %+v\nwant %+v", got.all, want)
	}
}

// parksOnce parks each call once, as if it waited for an approval for an hour.
type parksOnce struct {
	agent.ToolRunner
	parked bool
}

func (r *parksOnce) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	if !r.parked {
		r.parked = true
		return tools.ResultEvent{}, &tools.Pause{Until: time.Now().Add(time.Hour), Reason: "waiting"}
	}
	return r.ToolRunner.Call(ctx, call)
}

// The time of a call that waited counts from the turn that asked for it, not from the last attempt.
func TestTimeOfACallCountsFromItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result { return tools.NewToolResult("said") }))
		a := agent.New(parseScript(t, asks("say", `{}`), `{"text":"done"}`), &parksOnce{ToolRunner: s.runner}, &s.log, agent.Config{Tools: s.registry.Definitions()})
		var got activities
		for range 2 {
			_, _ = a.Run(tools.WithReporter(t.Context(), &got), tools.Call{ID: "r", Session: "s"}, agent.Text("go"))
			time.Sleep(time.Hour)
		}
		i := slices.IndexFunc(got.all, func(a tools.Activity) bool { return a.Type == tools.ActivityToolEnd })
		if i < 0 || got.all[i].DurationMS < time.Hour.Milliseconds() {
			t.Errorf("the activities are %+v", got.all)
		}
	})
}

// stops is the reporter of a worker that stops.
type stops struct{ activities }

func (*stops) Stopping() <-chan struct{} {
	stopping := make(chan struct{})
	close(stopping)
	return stopping
}

// A run that its worker hands back names its open calls, so that they are cancelled with it.
func TestHandedBackRunNamesItsCalls(t *testing.T) {
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result { return nil }))
	a := agent.New(parseScript(t, asks("say", `{}`)), &parksOnce{ToolRunner: s.runner}, &s.log, agent.Config{Tools: s.registry.Definitions()})
	call := tools.Call{ID: "r", Session: "s"}
	_, err := a.Run(t.Context(), call, agent.Text("go")) // its call is parked
	if _, paused := tools.PauseOf(err); !paused {
		t.Fatal(err)
	}
	_, err = a.Run(tools.WithReporter(t.Context(), new(stops)), call, agent.Text("go"))
	pause, _ := tools.PauseOf(err)
	if pause == nil || !pause.Made || !slices.Equal(pause.WaitsFor, []tools.CallKey{{Session: "s", ID: "r-t1-0"}}) {
		t.Errorf("the pause is %+v; %v", pause, err)
	}
}
