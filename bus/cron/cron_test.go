package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// enable enables or disables a job.
func enable(ctx context.Context, jobs *cron.Jobs, by cron.Caller, name string, on bool) (cron.Entry, error) {
	a, err := jobs.Do(ctx, by, "", cron.Request{Action: map[bool]string{true: cron.ActionEnable, false: cron.ActionDisable}[on], Name: name})
	if err != nil {
		return cron.Entry{}, err
	}
	return *a.Job, nil
}

func TestJobs(t *testing.T) {
	jobs := cron.New(bustest.New(t))
	ctx, alice, bob, operator := t.Context(), cron.Caller{Session: "alice"}, cron.Caller{Session: "bob"}, cron.Caller{Operator: true}
	job := cron.Job{
		Name: "backup", Cron: "30 9 * * 1-5", TimeZone: "Europe/Berlin", Session: "bob",
		Tool: "shell", Args: json.RawMessage(`{"command":"make"}`), Channel: "telegram", ChatID: "7", Timeout: time.Minute,
	}
	added, err := jobs.Add(ctx, alice, job)
	if err != nil || added.Session != "alice" || added.ChatID != "7" || added.Timeout != time.Minute || string(added.Args) != string(job.Args) {
		t.Fatalf("added %+v, %v", added, err)
	}
	up := added.Upcoming(3)
	if len(up) != 3 || !up[0].Equal(added.Next) || !up[1].After(up[0]) || !up[2].After(up[1]) {
		t.Errorf("upcoming %v", up)
	}
	other := job
	other.Tool = "read_file"
	if _, err := jobs.Add(ctx, alice, other); !errors.Is(err, cron.ErrExists) {
		t.Errorf("add again: %v", err)
	}

	// Another session can neither see nor change it; an operator can.
	_, get := jobs.Get(ctx, bob, "backup")
	_, update := jobs.Update(ctx, bob, "backup", func(j *cron.Job) error { j.Tool = "evil"; return nil })
	_, disable := enable(ctx, jobs, bob, "backup", false)
	for _, err := range []error{get, update, disable, jobs.Remove(ctx, bob, "backup")} {
		if !errors.Is(err, cron.ErrNotFound) {
			t.Errorf("bob: %v", err)
		}
	}
	if n := count(t, jobs, bob); n != 0 {
		t.Errorf("bob sees %d jobs", n)
	}
	if n := count(t, jobs, operator); n != 1 {
		t.Errorf("the operator sees %d jobs", n)
	}
	disabled, err := enable(ctx, jobs, operator, "backup", false)
	if err != nil || !disabled.Disabled || !disabled.Next.IsZero() || disabled.Upcoming(3) != nil || disabled.Session != "alice" {
		t.Errorf("disabled %+v, %v", disabled, err)
	}
	if enabled, err := enable(ctx, jobs, alice, "backup", true); err != nil || enabled.Disabled || enabled.Next.IsZero() {
		t.Errorf("enabled %+v, %v", enabled, err)
	}
	changed, err := jobs.Update(ctx, alice, "backup", func(j *cron.Job) error {
		j.Cron, j.TimeZone, j.Every, j.Session = "", "", time.Hour, "bob"
		return nil
	})
	if err != nil || changed.Every != time.Hour || changed.Cron != "" || changed.Session != "alice" || changed.Tool != "shell" {
		t.Errorf("changed %+v, %v", changed, err)
	}
	same, err := jobs.Update(ctx, alice, "backup", func(*cron.Job) error { return nil })
	if err != nil || !same.Next.Equal(changed.Next) {
		t.Errorf("same %+v, %v", same, err)
	}
	if err := jobs.Remove(ctx, alice, "backup"); err != nil {
		t.Error(err)
	}
	if err := jobs.Remove(ctx, alice, "backup"); !errors.Is(err, cron.ErrNotFound) {
		t.Errorf("remove again: %v", err)
	}
}

func count(t *testing.T, jobs *cron.Jobs, by cron.Caller) (n int) {
	t.Helper()
	for _, err := range jobs.List(t.Context(), by, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestBadJobs(t *testing.T) {
	jobs := cron.New(bustest.New(t))
	for want, j := range map[string]cron.Job{
		"the name":      {Name: "a.b", Every: time.Hour, Tool: "x"},
		"the tool":      {Name: "a", Every: time.Hour, Tool: "*"},
		"the queue":     {Name: "a", Every: time.Hour, Tool: "x", Queue: ">"},
		"the arguments": {Name: "a", Every: time.Hour, Tool: "x", Args: json.RawMessage(`[1]`)},
		"has passed":    {Name: "a", At: time.Now().Add(-time.Second), Tool: "x"},
		"exactly one":   {Name: "a", Tool: "x"},
		"the timeout":   {Name: "a", Every: time.Hour, Tool: "x", Timeout: time.Millisecond},
		"whole seconds": {Name: "a", Every: time.Millisecond, Tool: "x"},
		"has 3 fields":  {Name: "a", Cron: "* * *", Tool: "x"},
		"minute":        {Name: "a", Cron: "a b c d e", Tool: "x"},
		"never due":     {Name: "a", Cron: "0 0 30 2 *", Tool: "x"},
		"not known":     {Name: "a", Cron: "@daily", TimeZone: "Nowhere/At_All", Tool: "x"},
	} {
		if _, err := jobs.Add(t.Context(), cron.Caller{}, j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("add %+v: %v, want %q", j, err, want)
		}
	}
}

// If several callers add the same name to a session at once, one succeeds.
func TestNamesAreUnique(t *testing.T) {
	jobs := cron.New(bustest.New(t))
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = jobs.Add(t.Context(), cron.Caller{Session: "s"}, cron.Job{Name: "job", Every: time.Hour, Tool: string(rune('a' + i))})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, cron.ErrExists) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d jobs were added", won)
	}
}

// The failure of a one-shot is recorded and sent to the user, and the job ends.
func TestFailedJobNotifiesItsOwner(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		tool, err := tools.NewTool("fail", "fails", func(context.Context, tools.Call, struct{}) *tools.Result {
			return tools.ErrorResult("the disk is full")
		})
		if err != nil {
			t.Fatal(err)
		}
		console := make(recorder, 10)
		notifier, err := notify.New(b, notify.Config{Channels: map[string]channel.Channel{"console": console}})
		if err != nil {
			t.Fatal(err)
		}
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Ticks: true}, tool)
		bustest.Run(t, notifier.Run)

		results := bustest.Subscribe(t, b, "stevedore.result.alice.>")
		jobs := cron.New(b)
		if _, err := jobs.Add(t.Context(), cron.Caller{Session: "alice"}, cron.Job{Name: "once", At: time.Now().Add(1100 * time.Millisecond), Tool: "fail"}); err != nil {
			t.Fatal(err)
		}
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Failed || got.Action != bus.Cron {
			t.Errorf("result %+v", got)
		}
		select {
		case n := <-console:
			if !n.IsError || n.Session != "alice" || n.Text != "The cron job once did not succeed (failed): the disk is full" {
				t.Errorf("got %+v", n)
			}
		case <-time.After(bustest.Timeout):
			t.Error("no notification")
		}
		if list, err := jobs.Do(t.Context(), cron.Caller{Operator: true}, "", cron.Request{Action: cron.ActionList}); err != nil ||
			!strings.Contains(list.Text(), "ended, last run") || !strings.Contains(list.Text(), "failed: the disk is full") { // the status names it, too
			t.Errorf("%q, %v", list.Text(), err)
		}

		// Get still returns it with its outcome, and it can get a new time.
		alice := cron.Caller{Session: "alice"}
		e, err := jobs.Get(t.Context(), alice, "once")
		if err != nil || !e.Ended || e.LastRun == nil || e.LastRun.Outcome != tools.Failed || e.LastRun.Message != "the disk is full" || e.Tool != "fail" {
			t.Fatalf("ended %+v, %v", e, err)
		}
		if _, err := jobs.Get(t.Context(), cron.Caller{Session: "bob"}, "once"); !errors.Is(err, cron.ErrNotFound) {
			t.Errorf("bob: %v", err)
		}
		if _, err := enable(t.Context(), jobs, alice, "once", false); err == nil || !strings.Contains(err.Error(), "give it a new time") {
			t.Errorf("disable: %v", err)
		}
		stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Ticks))
		if err != nil {
			t.Fatal(err)
		}
		if msg, err := stream.GetLastMsgForSubject(t.Context(), "stevedore.run.cron.alice--once"); err != nil || msg.Header.Get("Nats-TTL") == "" {
			t.Errorf("the record of the run never expires: %v, %v", msg, err)
		}
		time.Sleep(time.Second)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("alice", "later"), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if stored, err := b.Stream(t.Context(), bus.Results); err != nil || stored.Purge(t.Context()) != nil {
			t.Fatal(err)
		}
		if e, err := jobs.Get(t.Context(), alice, "once"); err != nil || e.LastRun.Message != "the result is no longer stored" {
			t.Errorf("without its result: %+v, %v", e.LastRun, err)
		}
		lookups := bustest.Subscribe(t, b, "$JS.API.STREAM.MSG.GET.KV_stevedore_tasks")
		if n, asked := count(t, jobs, cron.Caller{Operator: true}), bustest.Rest(t, b, lookups); n != 0 || len(asked) > 0 {
			t.Errorf("%d jobs are left; the list looked for the calls of %d", n, len(asked))
		}
		again, err := jobs.Update(t.Context(), alice, "once", func(j *cron.Job) error { j.At = time.Now().Add(time.Hour); return nil })
		if err != nil || again.Ended || again.Next.IsZero() {
			t.Errorf("again %+v, %v", again, err)
		}
	})
}

type recorder chan channel.Notification

func (r recorder) Send(_ context.Context, n channel.Notification) error {
	r <- n
	return nil
}
