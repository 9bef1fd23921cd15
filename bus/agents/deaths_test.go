//go:build unix

package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A worker that gives up after five attempts dies eight times in one run. If each life
// completes a turn, the run ends with its answer. If none does, the worker gives the run up.
// The user gets one answer in both cases.
func TestRunWhoseWorkerDiesOften(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	for name, test := range map[string]struct {
		turns  string // of each life
		deaths int
		answer string
		failed bool
	}{
		"with progress":    {"1", maxDeaths, "done for <s0>", false},
		"without progress": {"0", 5, "the worker gave up on the call", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, Log: bustest.Log(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			b := bustest.Connect(t, s, bus.Config{Lease: agentLease, Log: bustest.Log(t)})
			run := scenario{sessions: 1, messages: 1, turns: 12}
			model, user := newFakeModel(t, b, run.script(t)), newUser(t, b)
			dir := t.TempDir()
			deaths := filepath.Join(dir, "deaths")
			startWorkers(t, 1, agentChildEnv+"="+s.URL(), agentModelEnv+"="+model.URL, agentRunsEnv+"="+filepath.Join(dir, "runs"),
				agentDieEnv+"=0", agentContextEnv+"=1000000", agentTurnsEnv+"="+test.turns, agentDeathsEnv+"="+deaths)
			event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, tools.Call{ID: "run0", Session: "s0", Tool: agent.AgentTool, Channel: "console", Args: json.RawMessage(`{"prompt":"I am <s0>"}`)})
			if err != nil || event.IsError != test.failed || !strings.Contains(event.ForLLM, test.answer) {
				t.Errorf("the answer is %q (%s), %v; want %q", event.ForLLM, event.Outcome, err, test.answer)
			}
			if died, err := os.ReadFile(deaths); err != nil || len(died) != test.deaths {
				t.Errorf("the worker died %d times, %v; want %d", len(died), err, test.deaths)
			}
			answers := 0
			for answers == 0 || len(user.got) > 0 {
				if n := <-user.got; n.Call == "run0" {
					if answers++; !strings.Contains(n.Text, test.answer) {
						t.Errorf("the user got %q; want %q", n.Text, test.answer)
					}
				}
			}
			if answers != 1 {
				t.Errorf("the user got %d answers", answers)
			}
		})
	}
}
