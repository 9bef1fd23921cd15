package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// down is a provider in an outage.
type down struct{}

func (down) Complete(context.Context, agent.Request) (agent.Response, error) {
	return agent.Response{}, &agent.ProviderError{Code: agent.CodeOverloaded, Status: 529, Message: "Overloaded", Retryable: true}
}

// A run that waited for its provider asks it with probes only, also for the summary that
// makes its history shorter.
func TestResumedRunSendsProbes(t *testing.T) {
	s := &stage{}
	var lines []string
	for range 10 {
		lines = append(lines, fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("blah ", 300)))
	}
	up := agent.New(parseScript(t, lines...), nil, &s.log, agent.Config{})
	for i := range 10 {
		run(t, up, "s", fmt.Sprint("r", i), "go")
	}
	for _, attempt := range []struct {
		context int64
		want    string // of the requests: is it for a summary, and a probe?
	}{{100_000, "[false false]"}, {2_000, "[true true]"}} {
		model := &recorder{Provider: down{}}
		_, err := agent.New(model, nil, &s.log, agent.Config{ContextTokens: attempt.context}).Run(t.Context(), tools.Call{ID: "waits", Session: "s"}, agent.Text("go"))
		var got strings.Builder
		for _, req := range model.requests {
			got.WriteString(fmt.Sprint([]bool{req.Summary, req.Probe}))
		}
		if _, paused := tools.PauseOf(err); !paused || got.String() != attempt.want {
			t.Errorf("with %d tokens, the requests are %s, %v; want %s", attempt.context, got.String(), err, attempt.want)
		}
	}
}

// sometimes is a provider that works for some of its requests.
type sometimes struct {
	agent.Provider
	works []bool
}

func (p *sometimes) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	works := p.works[0]
	if p.works = p.works[1:]; !works {
		return down{}.Complete(ctx, req)
	}
	return p.Provider.Complete(ctx, req)
}

// A run survives two outages that last longer than the limit of one outage together, because
// the provider answered between them. The first request after an answer is no probe.
func TestTwoOutagesOfOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result { return tools.NewToolResult("said") }))
		model := &recorder{Provider: &sometimes{parseScript(t, asks("say", `{}`), `{"text":"done"}`), []bool{false, true, false, false, true}}}
		a := s.agent(model, agent.Config{OutageTimeout: 24 * time.Hour})
		for i := range 4 {
			o, err := a.Run(t.Context(), tools.Call{ID: "r", Session: "s"}, agent.Text("go"))
			if _, paused := tools.PauseOf(err); paused != (i < 3) || i == 3 && o.Reply != "done" {
				t.Fatalf("attempt %d: %+v, %v", i, o, err)
			}
			time.Sleep(20 * time.Hour)
		}
		var probes []bool
		for _, req := range model.requests {
			probes = append(probes, req.Probe)
		}
		if want := []bool{false, true, false, true, true}; !slices.Equal(probes, want) {
			t.Errorf("probes %v, want %v", probes, want)
		}
	})
}
