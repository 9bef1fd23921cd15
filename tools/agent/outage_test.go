package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

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
	}{{100_000, "[false false]"}, {2_000, "[true true][false true]"}} {
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
