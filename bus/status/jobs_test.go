package status_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// The status names jobs whose last run failed, until a run ends well or nobody wants the job any more. It names those
// that ran once for a day.
func TestFailingJobsAreNamed(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
		var broken atomic.Bool
		broken.Store(true)
		tool, err := tools.NewTool("backup", "makes a backup", func(context.Context, tools.Call, struct{}) *tools.Result {
			if broken.Load() {
				return tools.ErrorResult("the disk\nis away.")
			}
			return tools.NewToolResult("done")
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := workertest.Start(t, b, workertest.Plain{}, worker.Config{Ticks: true}, tool.WithEffect(tools.Idempotent))
		jobs, operator := cron.New(b), cron.Caller{Operator: true}
		for i := range 7 {
			if _, err := jobs.Add(t.Context(), operator, cron.Job{Name: fmt.Sprint("job", i), Session: "s", Every: time.Minute, Tool: "backup"}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"single", "single2"} {
			if _, err := jobs.Add(t.Context(), operator, cron.Job{Name: name, Session: "s", At: time.Now().Add(90 * time.Second), Tool: "backup"}); err != nil {
				t.Fatal(err)
			}
		}
		named := func() (names []string) {
			s := status.Read(t.Context(), b)
			for _, p := range s.Problems {
				if p.Code == status.JobFailing {
					names = append(names, p.Name+": "+p.Text)
				}
			}
			if len(s.Errors) > 0 {
				t.Error(s.Errors)
			}
			return names
		}
		listed := func() string { // of those that ran once
			answer, err := jobs.Do(t.Context(), operator, "", cron.Request{Action: cron.ActionList})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range answer.Jobs {
				if e.Ended {
					names = append(names, e.Name)
				}
			}
			return strings.Join(names, " ")
		}
		time.Sleep(30 * time.Second)
		if got := named(); len(got) != 0 {
			t.Errorf("before the first run: %q", got)
		}
		time.Sleep(5 * time.Minute)
		got := named()
		if len(got) != 6 || got[5] != ": Further jobs whose last run failed: 4." {
			t.Fatalf("got %q", got)
		}
		for _, text := range got[:5] {
			var i int
			if n, _ := fmt.Sscanf(text, "s--job%d:", &i); n != 1 || text != fmt.Sprintf(`s--job%d: The last run of the job "job%d" of the session "s" failed: the disk is away.`, i, i) {
				t.Errorf("got %q", text)
			}
		}
		for i := range 5 {
			if err := jobs.Remove(t.Context(), operator, fmt.Sprint("job", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := jobs.Update(t.Context(), operator, "job5", func(j *cron.Job) error { j.Disabled = true; return nil }); err != nil {
			t.Fatal(err)
		}
		got = named()
		slices.Sort(got)
		if len(got) != 3 || got[0][:7] != "s--job6" || got[2] != `s--single: The last run of the job "single" of the session "s" failed: the disk is away.` {
			t.Errorf("one job goes on, got %q", got)
		}
		broken.Store(false)
		time.Sleep(2 * time.Minute)
		if got := named(); len(got) != 2 || got[0][:9] != "s--single" || listed() != "single single2" {
			t.Errorf("after a run that ended well: %q, listed %q", got, listed())
		}
		if err := jobs.Remove(t.Context(), operator, "single"); err != nil { // a remedy
			t.Fatal(err)
		}
		if got := named(); len(got) != 1 || got[0][:10] != "s--single2" {
			t.Errorf("after the removal: %q", got)
		}
		for _, name := range []string{"job5", "job6"} {
			if err := jobs.Remove(t.Context(), operator, name); err != nil {
				t.Fatal(err)
			}
		}
		stop() // it would take seconds to work for a day
		time.Sleep(24 * time.Hour)
		if got := named(); len(got) != 0 || listed() != "" {
			t.Errorf("after a day: %q, listed %q", got, listed())
		}
	})
}

// A job that fails after some time is named while its next run goes on, and by a name that no job of another session has.
func TestSlowFailingJobIsNamed(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
		tool, err := tools.NewTool("slow", "fails late in one session", func(ctx context.Context, call tools.Call, _ struct{}) *tools.Result {
			if call.Session != "broken" {
				return tools.NewToolResult("done")
			}
			_ = tools.Sleep(ctx, 50*time.Second) // it fails in any case
			return tools.ErrorResult("no")
		})
		if err != nil {
			t.Fatal(err)
		}
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Ticks: true}, tool.WithEffect(tools.Idempotent))
		jobs, operator := cron.New(b), cron.Caller{Operator: true}
		for _, session := range []string{tools.DefaultSession, "broken"} {
			if _, err := jobs.Add(t.Context(), operator, cron.Job{Name: "backup", Session: session, Every: time.Minute, Tool: "slow"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		for range 8 {
			time.Sleep(8 * time.Second)
			var named []string
			for _, p := range status.Read(t.Context(), b).Problems {
				if p.Code == status.JobFailing {
					named = append(named, p.Name)
				}
			}
			if len(named) != 1 {
				t.Fatalf("named %q", named)
			}
			if e, err := jobs.Get(t.Context(), operator, named[0]); err != nil || e.Session != "broken" {
				t.Errorf("%s is the job of %q, %v", named[0], e.Session, err)
			}
		}
	})
}

// The status says if it did not look at all jobs.
func TestJobsThatAreNotLookedAt(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for i := range cron.FailingSchedules + 1 {
		if i == cron.FailingSchedules {
			if s := status.Read(t.Context(), b); len(s.Notes) != 0 || len(s.Errors) != 0 {
				t.Errorf("with %d jobs: %q, %q", i, s.Notes, s.Errors)
			}
		}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.RunOf(bus.Cron, fmt.Sprint("s--", i)), Body: []byte(`{"call":"c","session":"s"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if s := status.Read(t.Context(), b); len(s.Notes) != 1 || len(s.Errors) != 0 {
		t.Errorf("with another one: %q, %q", s.Notes, s.Errors)
	}
}
