package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
)

// Only an operator sees a schedule that is no job, and can remove it.
func TestForeignSchedule(t *testing.T) {
	b := bustest.New(t)
	foreign := bus.Message{Subject: b.Schedule(bus.Cron, "foreign"), Body: []byte("not a job"), Header: nats.Header{
		jetstream.ScheduleHeader: {"@every 1h"}, jetstream.ScheduleTargetHeader: {b.Tick(bus.Cron, "foreign")},
	}}
	if _, err := b.Publish(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	jobs := cron.New(b)
	if n := count(t, jobs, cron.Caller{}); n != 0 {
		t.Errorf("the default session sees %d", n)
	}
	if e, err := jobs.Get(t.Context(), cron.Caller{Operator: true}, "foreign"); err != nil || e.Every != time.Hour {
		t.Errorf("the operator sees %+v, %v", e, err)
	}
	if err := jobs.Remove(t.Context(), cron.Caller{}, "foreign"); !errors.Is(err, cron.ErrNotFound) {
		t.Errorf("the default session removes it: %v", err)
	}
	odd := []string{"cron.-x", "cron." + strings.Repeat("y", 70), "heartbeat.beat", "other.kind"}
	for _, name := range odd {
		foreign.Subject = "stevedore.schedule." + name
		foreign.Header.Set(jetstream.ScheduleTargetHeader, "stevedore.tick."+name)
		if _, err := b.Publish(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for e, err := range jobs.List(t.Context(), cron.Caller{Operator: true}, "", "") {
		if listed++; err != nil {
			t.Fatal(err)
		}
		if err := jobs.Remove(t.Context(), cron.Caller{Operator: true}, e.Name); err != nil {
			t.Error(err)
		}
	}
	if n := bustest.Messages(t, b, bus.Ticks); n != 0 || listed != 1+len(odd) {
		t.Errorf("listed %d, and %d stay", listed, n)
	}
}

// A heartbeat is in the same lists as the jobs, also if a job has its name. Only its program
// changes it.
func TestHeartbeatIsListedAndKept(t *testing.T) {
	jobs, operator := cron.New(bustest.New(t)), cron.Caller{Operator: true}
	beat := cron.Job{Kind: bus.Heartbeat, Name: "main", Session: "heartbeat-main", Every: 30 * time.Minute, Tool: "agent"}
	if changed, err := jobs.Put(t.Context(), beat, true); !changed || err != nil {
		t.Fatal(changed, err)
	}
	odd := cron.Job{Kind: bus.Heartbeat, Name: "night--2", Session: "heartbeat-night--2", Every: time.Hour, Tool: "x"}
	if _, err := jobs.Put(t.Context(), odd, true); err != nil {
		t.Fatal(err)
	}
	if n := count(t, jobs, cron.Caller{Session: odd.Session}); n != 1 {
		t.Errorf("the session of a heartbeat sees %d", n)
	}
	for _, session := range []string{"", "s1"} {
		if a, err := jobs.Do(t.Context(), operator, "", cron.Request{Action: cron.ActionList}); err != nil || strings.Contains(a.Text(), "(session") {
			t.Errorf("of one session: %s, %v", a.Text(), err)
		}
		if _, err := jobs.Add(t.Context(), cron.Caller{Session: session}, cron.Job{Name: "main", Every: time.Hour, Tool: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		a, err := jobs.Do(t.Context(), operator, "", cron.Request{Action: cron.ActionList, Limit: 1, After: after})
		if err != nil || len(a.Jobs) != 1 || pages == 4 {
			t.Fatalf("page %d: %+v, %v", pages, a, err)
		}
		got = append(got, a.Jobs[0].Session)
		after = a.Next
	}
	if strings.Join(got, " ") != "default s1 heartbeat-main heartbeat-night--2" {
		t.Errorf("the pages list the sessions %q", got)
	}
	a, err := jobs.Do(t.Context(), operator, "", cron.Request{Action: cron.ActionList})
	if err != nil || !strings.Contains(a.Text(), "main (session s1): every 1h") || !strings.Contains(a.Text(), "main (heartbeat): every 30m, calls agent") {
		t.Errorf("%s, %v", a.Text(), err)
	}
	if n := count(t, jobs, cron.Caller{Session: "s1"}); n != 1 {
		t.Errorf("the session s1 sees %d", n)
	}

	owner := cron.Caller{Session: "heartbeat-main"}
	for _, by := range []cron.Caller{owner, {Token: "heartbeat-main"}} {
		if e, err := jobs.Get(t.Context(), by, "main"); err != nil || e.Kind != bus.Heartbeat || e.Tool != "agent" {
			t.Errorf("get: %+v, %v", e, err)
		}
	}
	for _, action := range []string{cron.ActionUpdate, cron.ActionEnable, cron.ActionDisable, cron.ActionRemove} {
		_, err := jobs.Do(t.Context(), owner, "", cron.Request{Action: action, Name: "main", Every: "1h"})
		if !errors.Is(err, cron.ErrKept) || !strings.Contains(err.Error(), "HEARTBEAT.md") {
			t.Errorf("%s: %v", action, err)
		}
	}
	if _, err := jobs.Add(t.Context(), owner, cron.Job{Name: "main", Every: time.Hour, Tool: "x"}); !errors.Is(err, cron.ErrExists) {
		t.Errorf("add: %v", err)
	}

	// The operator's "main" is the job of the default session, then ambiguous, then the heartbeat.
	if e, err := enable(t.Context(), jobs, operator, "main", false); err != nil || e.Session != "default" {
		t.Errorf("disable: %+v, %v", e, err)
	}
	if err := jobs.Remove(t.Context(), operator, "main"); err != nil {
		t.Error(err)
	}
	if _, err := jobs.Get(t.Context(), operator, "main"); err == nil || !strings.Contains(err.Error(), "name the session") {
		t.Errorf("ambiguous: %v", err)
	}
	if err := jobs.Remove(t.Context(), cron.Caller{Session: "s1"}, "main"); err != nil {
		t.Error(err)
	}
	if e, err := jobs.Get(t.Context(), operator, "main"); err != nil || e.Kind != bus.Heartbeat || e.Disabled {
		t.Errorf("the heartbeat: %+v, %v", e, err)
	}

	beat.Every = time.Hour
	if changed, err := jobs.Put(t.Context(), beat, false); changed || err != nil {
		t.Errorf("a heartbeat that exists was replaced: %t, %v", changed, err)
	}
	if existed, err := jobs.Delete(t.Context(), "main"); !existed || err != nil {
		t.Errorf("delete: %t, %v", existed, err)
	}
	if changed, err := jobs.Put(t.Context(), beat, false); !changed || err != nil {
		t.Errorf("a missing heartbeat was not stored: %t, %v", changed, err)
	}
}
