package commands

import (
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// The arguments of a call are shown as the page shows them, and as they are if only their start is there.
func TestAsked(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"echo 0 >> x"}`:             "echo 0 >> x",
		`{"path":"a","n":[1,{"b":2}],"m":null}`: `path: a  n: [1,{"b":2}]  m: null`,
		`{"n":1}`:                               "n: 1",
		`{}`:                                    "",
		``:                                      "",
		`["a"]`:                                 `["a"]`,
		`{"path":"a","content":"cut of…`:        `{"path":"a","content":"cut of…`,
		`{"path"`:                               `{"path"`,
	} {
		if got := asked(args); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// The slowest and the dearest step are among those without steps of their own: the time and the cost of a run and of a
// sub-agent are those of their steps.
func TestSlowestAndDearestStep(t *testing.T) {
	step := func(kind agent.TraceKind, name string, began, ended int, cost float64, steps ...*agent.TraceStep) *agent.TraceStep {
		s := &agent.TraceStep{Kind: kind, Name: name, At: time.Unix(int64(began), 0), EndedAt: time.Unix(int64(ended), 0), Steps: steps}
		s.Usage.Cost = cost
		return s
	}
	for _, c := range []struct {
		queued           int // seconds
		slowest, dearest string
	}{{1, "call shell", "turn second"}, {9, "queue", "turn second"}} {
		run := step("run", "", 0, 30, 7,
			step(agent.TraceQueue, "", 0, c.queued, 0), step("turn", "first", 10, 12, 1), step(agent.TraceCall, "shell", 12, 17, 0),
			step(agent.TraceCall, "subagent", 17, 29, 4, step("turn", "child", 17, 20, 2)), step("turn", "second", 29, 30, 3))
		steps := traceTable{Table: cli.NewTable("at", "took", "step", "state", "tokens in", "tokens out", "cost", "text"), begin: run.At}
		steps.add(0, run)
		if slowest, dearest := stepName(steps.slowest), stepName(steps.dearest); slowest != c.slowest || dearest != c.dearest {
			t.Errorf("queued for %d s: slowest %q, dearest %q", c.queued, slowest, dearest)
		}
	}
}
