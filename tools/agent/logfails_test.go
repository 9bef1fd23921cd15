package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// failingLog fails between two times. A request that begins then takes a pause, and fails if that is not long enough.
type failingLog struct {
	*memConversations
	from, until time.Time
	pause       time.Duration
}

func (l *failingLog) failure() error {
	if now := time.Now(); now.After(l.from) && now.Before(l.until) {
		if time.Sleep(l.pause); time.Now().Before(l.until) {
			return errors.New("the disk is away")
		}
	}
	return nil
}

func (l *failingLog) Read(ctx context.Context, session string, after uint64) ([][]byte, uint64, error) {
	if err := l.failure(); err != nil {
		return nil, 0, err
	}
	return l.memConversations.Read(ctx, session, after)
}

func (l *failingLog) Append(ctx context.Context, session string, after uint64, entry []byte) (uint64, error) {
	if err := l.failure(); err != nil {
		return 0, err
	}
	return l.memConversations.Append(ctx, session, after, entry)
}

// The log may fail for minutes at any time of a run, also of a run that has lasted for hours
// or that has waited for another run. A log that fails for longer ends the attempt.
func TestLogFailsLateInARun(t *testing.T) {
	for name, tt := range map[string]struct {
		away time.Duration
		ok   bool
	}{"minutes": {5 * time.Minute, true}, "an hour": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := newTool(t, "slow", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
					time.Sleep(3 * time.Hour)
					return tools.NewToolResult("done")
				})
				s := newStage(t, slow)
				start := time.Now()
				log := &failingLog{&s.log, start.Add(3*time.Hour - time.Minute), start.Add(3*time.Hour + tt.away), 0}
				newAgent := func(cfg agent.Config) *agent.Agent {
					cfg.Tools = s.registry.Definitions()
					cfg.IsRunning = func(context.Context, tools.CallKey) (bool, error) { return true, nil }
					return agent.New(parseScript(t, asks("slow", `{}`), `{"text":"answer"}`, `{"text":"answer"}`), s.runner, log, cfg)
				}
				errs := make(chan error, 2)
				for _, id := range []string{"slow", "waits"} {
					go func() {
						o, err := newAgent(agent.Config{}).Run(t.Context(), tools.Call{ID: id, Session: "s"}, agent.Text("go"))
						if err == nil && o.Reply != "answer" {
							t.Errorf("%s: %+v", id, o)
						}
						errs <- err
					}()
					time.Sleep(time.Second)
				}
				for range 2 {
					if err := <-errs; (err == nil) != tt.ok {
						t.Errorf("error %v", err)
					}
				}
			})
		})
	}
}

// failingRunner takes no calls until a time.
type failingRunner struct {
	agent.ToolRunner
	until time.Time
}

func (r failingRunner) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	if time.Now().Before(r.until) {
		return tools.ResultEvent{}, errors.New("the bus is away")
	}
	return r.ToolRunner.Call(ctx, call)
}

// A run whose calls nobody takes for minutes goes on afterwards.
func TestCallsFailForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, newTool(t, "quick", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result { return tools.NewToolResult("done") }))
		runner := failingRunner{s.runner, time.Now().Add(9 * time.Minute)}
		a := agent.New(parseScript(t, asks("quick", `{}`), `{"text":"answer"}`), runner, &s.log, agent.Config{Tools: s.registry.Definitions()})
		o, err := a.Run(t.Context(), tools.Call{ID: "1", Session: "s"}, agent.Text("go"))
		if err != nil || o.Reply != "answer" || o.Turns != 2 {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// A sub-agent in the background whose call nobody takes for minutes does its task afterwards. If nobody knows whether the
// call was taken, a failure would be wrong.
func TestSpawnWhoseCallFailsForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		all, err := agent.Tools(agent.ToolsConfig{
			Models: map[string]agent.Provider{"m": parseScript(t, `{"text":"the report"}`)}, DefaultModel: "m", Definitions: s.registry.Definitions,
			Runner: failingRunner{s.runner, time.Now().Add(9 * time.Minute)}, Conversations: &s.log,
		})
		if err == nil {
			err = s.registry.Register(all...)
		}
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan *tools.Result, 1)
		call := tools.Call{ID: "p", Session: "s", Tool: "spawn", Args: json.RawMessage(`{"task":"child"}`)}
		s.registry.Run(t.Context(), call, func(_ context.Context, res *tools.Result) { done <- res })
		if res := <-done; res.IsError || res.ForUser != "the report" {
			t.Errorf("%+v", res)
		}
	})
}

// parkingRunner parks calls of the tool "asks", and notes those that a cancelled run makes.
type parkingRunner struct {
	agent.ToolRunner
	cancelled chan string
}

func (r parkingRunner) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	switch {
	case call.Tool != "asks":
		return r.ToolRunner.Call(ctx, call)
	case ctx.Err() != nil:
		r.cancelled <- call.ID
		return tools.ResultEvent{}, ctx.Err()
	}
	return tools.ResultEvent{}, &tools.Pause{Until: time.Now().Add(time.Hour), WaitsFor: []tools.CallKey{{Session: "s", ID: call.ID}}, Made: true}
}

// A run that is cancelled while its log fails has calls that nobody else knows: it cancels a parked one. That also holds
// if the log takes the end of the run.
func TestCancelWhileTheLogFails(t *testing.T) {
	for name, tt := range map[string]struct {
		away, pause time.Duration
		ends        bool
	}{
		"for an hour":                            {time.Hour, 0, false},
		"until the run claims its session again": {42 * time.Second, 8 * time.Second, true},
		"until the run logs its end":             {50 * time.Second, 8 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				say := func(context.Context, tools.Call, sayArgs) *tools.Result {
					time.Sleep(time.Minute)
					return tools.NewToolResult("done")
				}
				s := newStage(t, newTool(t, "slow", tools.Idempotent, say), newTool(t, "asks", tools.Once, say))
				from := time.Now().Add(30 * time.Second)
				log := &failingLog{&s.log, from, from.Add(tt.away), tt.pause}
				runner := parkingRunner{s.runner, make(chan string, 10)}
				a := agent.New(parseScript(t, `{"tools":[{"name":"slow"},{"name":"asks"}]}`), runner, log, agent.Config{Tools: s.registry.Definitions()})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(70*time.Second, func() { cancel(tools.Errorf(tools.CodeCancelled, "cancelled")) })
				if o, err := a.Run(ctx, tools.Call{ID: "r", Session: "s"}, agent.Text("go")); (err == nil) != tt.ends || tt.ends && o.Reason != agent.Cancelled {
					t.Errorf("the run ended with %+v, %v", o, err)
				}
				select {
				case id := <-runner.cancelled:
					if id != "r-t1-1" {
						t.Errorf("the call %s was cancelled", id)
					}
				default:
					t.Error("the parked call was not cancelled")
				}
			})
		})
	}
}
