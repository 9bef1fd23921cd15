package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// Each session has its own names, whatever they look like: no session hides, changes or
// blocks a job of another one.
func TestNamesBelongToTheirSession(t *testing.T) {
	jobs := cron.New(bustest.New(t))
	pairs := []struct{ session, name string }{
		{"", "tea"}, {"a", "tea"}, {"b", "tea"}, {"a--b", "tea"}, {"a", "b--tea"}, {"", "a--tea"}, {"default--a", "tea"},
		{"a-", "tea"}, {"a-", "b"}, {"a", "b"}, {"me-42", "tea"}, {"chat with Ann", "tea"}, {strings.Repeat("s", 64), "tea"},
		{strings.Repeat("s", 64), strings.Repeat("n", 64)}, {strings.Repeat("s", 63), strings.Repeat("n", 64)},
	}
	tool := func(i int) string { return "tool" + string(rune('a'+i)) }
	for i, p := range pairs {
		e, err := jobs.Add(t.Context(), cron.Caller{Session: p.session}, cron.Job{Name: p.name, Every: time.Hour, Tool: tool(i)})
		if err != nil || e.Name != p.name {
			t.Errorf("add %q %q: %+v, %v", p.session, p.name, e, err)
		}
	}
	for i, p := range pairs {
		by := cron.Caller{Session: p.session}
		if e, err := jobs.Get(t.Context(), by, p.name); err != nil || e.Tool != tool(i) || e.Name != p.name {
			t.Errorf("get %q %q: %+v, %v", p.session, p.name, e, err)
		}
		if _, err := jobs.Add(t.Context(), by, cron.Job{Name: p.name, Every: time.Hour, Tool: "x"}); !errors.Is(err, cron.ErrExists) {
			t.Errorf("add %q %q again: %v", p.session, p.name, err)
		}
		if e, err := enable(t.Context(), jobs, by, p.name, false); err != nil || !e.Disabled || e.Unchanged {
			t.Errorf("disable %q %q: %+v, %v", p.session, p.name, e, err)
		}
	}
	if n := count(t, jobs, cron.Caller{Session: "a"}); n != 3 {
		t.Errorf("the session a has %d jobs", n)
	}
	for _, p := range pairs {
		if err := jobs.Remove(t.Context(), cron.Caller{Session: p.session}, p.name); err != nil {
			t.Errorf("remove %q %q: %v", p.session, p.name, err)
		}
	}
	if n := count(t, jobs, cron.Caller{Operator: true}); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

// An operator names a job of the default session, the only job with a name, or the
// schedule of a job. An ambiguous name is an error that says what to do.
func TestOperatorNamesJobs(t *testing.T) {
	jobs, operator := cron.New(bustest.New(t)), cron.Caller{Operator: true}
	for _, session := range []string{"s1", "s2"} {
		if _, err := jobs.Add(t.Context(), cron.Caller{Session: session}, cron.Job{Name: "tea", Every: time.Hour, Tool: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := enable(t.Context(), jobs, operator, "tea", false); tools.CodeOf(err) != tools.CodeInvalidArguments || !strings.Contains(err.Error(), `several sessions have a job "tea"`) || !strings.Contains(err.Error(), "s2--tea") {
		t.Errorf("ambiguous: %v", err)
	}
	if e, err := enable(t.Context(), jobs, operator, "s2--tea", false); err != nil || e.Name != "tea" || e.Session != "s2" || !e.Disabled {
		t.Errorf("by schedule: %+v, %v", e, err)
	}
	if err := jobs.Remove(t.Context(), operator, "s2--tea"); err != nil {
		t.Error(err)
	}
	if e, err := jobs.Get(t.Context(), operator, "tea"); err != nil || e.Session != "s1" {
		t.Errorf("the only one: %+v, %v", e, err)
	}
	added, err := jobs.Add(t.Context(), operator, cron.Job{Name: "tea", Every: time.Hour, Tool: "x"})
	if err != nil || added.Session != tools.DefaultSession {
		t.Fatalf("added %+v, %v", added, err)
	}
	if e, err := jobs.Get(t.Context(), operator, "tea"); err != nil || e.Session != tools.DefaultSession {
		t.Errorf("of the default session: %+v, %v", e, err)
	}
	data, err := json.Marshal(added)
	if err != nil || !strings.Contains(string(data), `"schedule":"tea"`) {
		t.Errorf("%s, %v", data, err)
	}
}

// Two sessions have a job with one name: both run, each in its session, and the ids of the
// calls contain the job's name. A job that another program stored under its own name works.
func TestRunsOfEqualNames(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		jobs := cron.New(b)
		say, err := tools.NewTool("say", "says", func(_ context.Context, _ tools.Call, _ struct{}) *tools.Result { return tools.NewToolResult("said") })
		if err != nil {
			t.Fatal(err)
		}
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Ticks: true}, say)
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		at := time.Now().Add(1200 * time.Millisecond)
		for _, session := range []string{"s1", "s2"} {
			if _, err := jobs.Add(t.Context(), cron.Caller{Session: session}, cron.Job{Name: "tea", At: at, Tool: "say"}); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]string{}
		for range 2 {
			e, _ := bustest.Next[tools.ResultEvent](t, results)
			got[e.Session] = e.ID
		}
		for _, session := range []string{"s1", "s2"} {
			if !strings.HasPrefix(got[session], "cron-tea-2") {
				t.Errorf("session %s: calls %v", session, got)
			}
			if e, err := jobs.Get(t.Context(), cron.Caller{Session: session}, "tea"); err != nil || e.LastRun == nil || e.LastRun.Call != got[session] {
				t.Errorf("session %s: %+v, %v", session, e, err)
			}
		}
		if e, err := jobs.Get(t.Context(), cron.Caller{Operator: true}, "tea"); err == nil || !strings.Contains(err.Error(), "s2--tea") {
			t.Errorf("two ended jobs, for an operator: %+v, %v", e, err)
		}
		if err := jobs.Remove(t.Context(), cron.Caller{Session: "s1"}, "tea"); err != nil {
			t.Fatal(err)
		}
		if e, err := jobs.Get(t.Context(), cron.Caller{Operator: true}, "tea"); err != nil || !e.Ended || e.Session != "s2" {
			t.Errorf("an ended job, for an operator: %+v, %v", e, err)
		}

		foreign := bus.Message{Subject: b.Schedule(bus.Cron, "foreign"), Body: []byte(`{"session":"s3","tool":"say","args":{}}`), Header: nats.Header{
			jetstream.ScheduleHeader: {"@every 1h"}, jetstream.ScheduleTargetHeader: {b.Tick(bus.Cron, "foreign")},
		}}
		if _, err := b.Publish(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		s3 := cron.Caller{Session: "s3"}
		if _, err := jobs.Add(t.Context(), s3, cron.Job{Name: "foreign", Every: time.Hour, Tool: "x"}); !errors.Is(err, cron.ErrExists) {
			t.Errorf("add a foreign name: %v", err)
		}
		if e, err := enable(t.Context(), jobs, s3, "foreign", false); err != nil || !e.Disabled {
			t.Errorf("foreign: %+v, %v", e, err)
		}
	})
}
