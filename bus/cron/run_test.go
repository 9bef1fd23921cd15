package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// runSay starts a worker with the tool "say" and returns its calls.
func runSay(t *testing.T, b *bus.Bus) <-chan tools.Call {
	t.Helper()
	calls := make(chan tools.Call, 100)
	say, err := tools.NewTool("say", "says", func(_ context.Context, call tools.Call, _ struct {
		Text string `json:"text"`
	}) *tools.Result {
		calls <- call
		return tools.NewToolResult("said")
	})
	if err != nil {
		t.Fatal(err)
	}
	workertest.Start(t, b, workertest.Plain{}, worker.Config{Ticks: true}, say.WithEffect(tools.Idempotent))
	return calls
}

func nextCall(t *testing.T, calls <-chan tools.Call) tools.Call {
	t.Helper()
	select {
	case call := <-calls:
		return call
	case <-time.After(bustest.Timeout): // more than the intervals in bubbles
		t.Fatal("no call")
		panic("unreachable")
	}
}

// A job makes one call per due time, and none while it is disabled. Get returns its
// last run.
func TestRunsUntilDisabled(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		calls, results := runSay(t, b), bustest.Subscribe(t, b, "stevedore.result.alice.>")
		jobs, alice := cron.New(b), cron.Caller{Session: "alice"}
		job := cron.Job{Name: "tick", Every: time.Second, Tool: "say", Args: json.RawMessage(`{"text":"hi"}`), Channel: "telegram", ChatID: "7"}
		if _, err := jobs.Add(t.Context(), alice, job); err != nil {
			t.Fatal(err)
		}
		first := nextCall(t, calls)
		if first.Session != "alice" || first.Channel != "telegram" || first.ChatID != "7" || first.Action != bus.Cron || string(first.Args) != `{"text":"hi"}` || first.Deadline.IsZero() {
			t.Errorf("call %+v", first)
		}
		if second := nextCall(t, calls); second.ID == first.ID {
			t.Errorf("two calls have the id %q", first.ID)
		}
		if _, err := enable(t.Context(), jobs, alice, "tick", false); err != nil {
			t.Fatal(err)
		}
		// The call of its last tick may be stored already. While another job makes three calls, this
		// one makes no further call.
		if _, err := jobs.Add(t.Context(), alice, cron.Job{Name: "other", Cron: "* * * * * *", Tool: "say", Args: json.RawMessage(`{"text":"other"}`)}); err != nil {
			t.Fatal(err)
		}
		others, late := 0, 0
		for others < 3 {
			if call := nextCall(t, calls); strings.HasPrefix(call.ID, "cron-other-") {
				others++
			} else {
				late++
			}
		}
		if late > 1 {
			t.Errorf("%d runs of a disabled job", late)
		}
		if err := jobs.Remove(t.Context(), alice, "other"); err != nil {
			t.Error(err)
		}
		bustest.Next[tools.ResultEvent](t, results)
		bustest.WaitUntil(t, "the last run", func() bool {
			e, err := jobs.Get(t.Context(), alice, "tick")
			if err != nil {
				t.Fatal(err)
			}
			r := e.LastRun
			return r != nil && r.Outcome == tools.Completed && strings.HasPrefix(r.Call, "cron-tick-") && !r.Due.IsZero() && !r.EndedAt.IsZero()
		})
	})
}

// If the server is down when a one-shot is due, it runs once after the restart. A
// disabled job is still disabled.
func TestJobsSurviveAServerRestart(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Start(t, embedded.Config{Dir: dir, NoSync: true})
		b := bustest.Connect(t, s, bus.Config{})
		jobs, alice := cron.New(b), cron.Caller{Session: "alice"}
		for _, job := range []cron.Job{
			{Name: "once", At: time.Now().Add(time.Hour), Tool: "say", Args: json.RawMessage(`{"text":"once"}`)},
			{Name: "disabled", Every: time.Minute, Tool: "say", Args: json.RawMessage(`{"text":"disabled"}`), Disabled: true},
		} {
			if _, err := jobs.Add(t.Context(), alice, job); err != nil {
				t.Fatal(err)
			}
		}
		b.Close()
		s.Close()
		time.Sleep(2 * time.Hour) // the outage
		b = bustest.Connect(t, bustest.Start(t, embedded.Config{Dir: dir, NoSync: true}), bus.Config{})
		calls := runSay(t, b)
		if call := nextCall(t, calls); string(call.Args) != `{"text":"once"}` {
			t.Fatalf("call %+v", call)
		}
		time.Sleep(2 * time.Minute)
		jobs = cron.New(b)
		if e, err := jobs.Get(t.Context(), alice, "disabled"); err != nil || !e.Disabled || e.Every != time.Minute {
			t.Errorf("disabled job %+v, %v", e, err)
		}
		// No other call came before it is enabled.
		if _, err := enable(t.Context(), jobs, alice, "disabled", true); err != nil {
			t.Fatal(err)
		}
		if next := nextCall(t, calls); string(next.Args) != `{"text":"disabled"}` {
			t.Errorf("call %+v", next)
		}
	})
}

// If two processes change a job at once, no change is lost. A caller that always
// meets another change gets ErrChanged.
func TestConcurrentChangesAreKept(t *testing.T) {
	s := bustest.Server(t)
	one, two := cron.New(bustest.Connect(t, s, bus.Config{})), cron.New(bustest.Connect(t, s, bus.Config{}))
	owner := cron.Caller{Session: "s"}
	if _, err := one.Add(t.Context(), owner, cron.Job{Name: "job", Every: time.Hour, Tool: "x"}); err != nil {
		t.Fatal(err)
	}
	changeTwo := func(timeout time.Duration) {
		t.Helper()
		if _, err := two.Update(t.Context(), owner, "job", func(j *cron.Job) error { j.Timeout = timeout; return nil }); err != nil {
			t.Error(err)
		}
	}
	tries := 0
	e, err := one.Update(t.Context(), owner, "job", func(j *cron.Job) error {
		if tries++; tries == 1 {
			changeTwo(time.Minute)
		}
		j.Channel = "log"
		return nil
	})
	if err != nil || tries != 2 || e.Channel != "log" || e.Timeout != time.Minute {
		t.Errorf("after %d tries %+v, %v", tries, e.Job, err)
	}
	tries = 0
	_, err = one.Update(t.Context(), owner, "job", func(j *cron.Job) error {
		tries++
		changeTwo(time.Duration(tries) * time.Hour)
		j.Channel = "telegram"
		return nil
	})
	if !errors.Is(err, cron.ErrChanged) || tries < 2 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	if e, err := two.Get(t.Context(), owner, "job"); err != nil || e.Channel != "log" || e.Timeout != time.Duration(tries)*time.Hour {
		t.Errorf("finally %+v, %v", e.Job, err)
	}
}

// A one-shot runs although an earlier job with its name has a run without result.
// Another session does not see that run.
func TestOneShotIsNotSkipped(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	record := `{"call":"cron-once-1","session":"bob","slot":"2026-11-20T12:00:00Z","deadline":"2099-01-01T00:00:00Z"}`
	if _, err := b.Publish(t.Context(), bus.Message{Subject: "stevedore.run.cron.alice--once", Body: []byte(record)}); err != nil {
		t.Fatal(err)
	}
	jobs, alice := cron.New(b), cron.Caller{Session: "alice"}
	added, err := jobs.Add(t.Context(), alice, cron.Job{Name: "once", At: time.Now().Add(300 * time.Millisecond), Tool: "say", Args: json.RawMessage(`{"text":"once"}`)})
	if err != nil || added.Overlap {
		t.Fatalf("added %+v, %v", added, err)
	}
	if e, err := jobs.Get(t.Context(), alice, "once"); err != nil || e.LastRun != nil {
		t.Errorf("last run %+v, %v", e.LastRun, err)
	}
	if call := nextCall(t, runSay(t, b)); call.Session != "alice" || !strings.HasPrefix(call.ID, "cron-once-2") {
		t.Errorf("call %+v", call)
	}
}
