package agents

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A run that waited for the one before shows it: its trace begins when a worker had it first. One that
// began at once waited for nothing.
func TestTraceOfARunThatWaited(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	began := time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	for id, waited := range map[string]time.Duration{"soon": 20 * time.Millisecond, "late": 7 * time.Second} {
		call := tools.Call{ID: "r", Session: id, Tool: "agent"}
		last := uint64(0)
		for _, e := range []agent.Entry{
			{Kind: agent.KindUser, Run: "r", At: began.Add(waited), Call: &call, Message: &agent.Message{Role: agent.RoleUser, Content: []agent.Block{agent.Text("hello")}}},
			{Kind: agent.KindEnd, Run: "r", At: began.Add(waited + time.Second), End: &agent.Outcome{Reason: "done"}},
		} {
			body, err := json.Marshal(e)
			if err == nil {
				last, err = session.New(b).Append(t.Context(), id, last, body)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		event := tools.ResultEvent{ID: "r", Session: id, Tool: "agent", Outcome: tools.Completed, StartedAt: began, DurationMS: (waited + time.Second).Milliseconds()}
		body, err := json.Marshal(event)
		if err == nil {
			_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result(id, "r"), Body: body})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, steps := range map[string]int{"soon": 0, "late": 1} {
		trace, err := readTrace(t.Context(), b, SessionRequest{Session: id})
		if err != nil || len(trace.Run.Steps) != steps {
			t.Fatalf("%s: %+v, %v", id, trace.Run, err)
		}
		if steps == 1 && (trace.Run.Steps[0].Kind != agent.TraceQueue || !trace.Run.At.Equal(began) || !trace.Run.Steps[0].EndedAt.Equal(began.Add(7*time.Second))) {
			t.Errorf("%s: %+v, %+v", id, trace.Run, trace.Run.Steps[0])
		}
	}
}
