package cron_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
)

// A job that was disabled does not run the tick that waits for a worker.
func TestDisabledWhileATickWaits(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		jobs, alice := cron.New(b), cron.Caller{Session: "alice"}
		for _, name := range []string{"off", "on"} {
			job := cron.Job{Name: name, Every: time.Minute, Tool: "say", Args: json.RawMessage(`{"text":"` + name + `"}`)}
			if _, err := jobs.Add(t.Context(), alice, job); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(90 * time.Second)
		subject := b.Tick(bus.Cron, "alice--off")
		tick, err := b.Last(t.Context(), bus.Ticks, subject)
		if err != nil || tick.Sequence == 0 {
			t.Fatal(tick, err)
		}
		for i := range 2 { // the second time, the tick was not removed at the first one
			if _, err := enable(t.Context(), jobs, alice, "off", false); err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				break
			}
			if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: tick.Body}); err != nil {
				t.Fatal(err)
			}
		}
		calls := runSay(t, b)
		for range 3 {
			if call := nextCall(t, calls); string(call.Args) != `{"text":"on"}` {
				t.Errorf("call %+v", call)
			}
		}
	})
}

// The call of a run waits for a worker, also after its deadline. If somebody removed it, the next
// tick of the job starts it, and nothing the call of a job that runs once.
func TestRunWithoutAWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		runSay(t, b)
		jobs, alice := cron.New(b), cron.Caller{Session: "alice"}
		say := cron.Job{Tool: "say", Args: json.RawMessage(`{"text":"hi"}`), Queue: "nobody", Timeout: time.Hour}
		once, often := say, say
		once.Name, once.At = "once", time.Now().Add(time.Minute)
		often.Name, often.Every, often.Timeout = "often", time.Hour, 4*time.Hour
		for _, job := range []cron.Job{once, often} {
			if _, err := jobs.Add(t.Context(), alice, job); err != nil {
				t.Fatal(err)
			}
		}
		check := func(name, want string) {
			t.Helper()
			if e, err := jobs.Get(t.Context(), alice, name); err != nil || e.LastRun == nil || e.LastRun.Text() != want {
				t.Errorf("%s: %+v, %v; want %q", name, e.LastRun, err, want)
			}
		}
		time.Sleep(time.Hour + time.Minute)
		check("often", "not ended yet")
		time.Sleep(90 * time.Minute)
		check("once", "not ended yet")
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("alice", "later"), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		calls, err := b.Stream(t.Context(), bus.Calls)
		if err != nil || calls.Purge(t.Context()) != nil {
			t.Fatal(err)
		}
		check("often", "no stream has its call; the next tick starts it")
		check("once", "no stream has its call")
	})
}

// Jobs are changed while the server publishes their ticks, one after the other, because many are due. It removes the
// schedule of a job that runs once with its tick, and takes the next due time of another one from the tick. The changes stay.
func TestChangedWhileTheTickIsPublished(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		jobs, at := cron.New(b), time.Now().Add(time.Hour)
		const others = 3000
		var puts errgroup.Group
		puts.SetLimit(64)
		for i := range others {
			puts.Go(func() error {
				_, err := jobs.Put(t.Context(), cron.Job{Name: fmt.Sprint("other", i), At: at, Tool: "x"}, true)
				return err
			})
		}
		if err := puts.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, job := range []cron.Job{{Name: "once", At: at}, {Name: "often", Every: time.Hour}, {Name: "removed", At: at}} {
			job.Tool = "x"
			if _, err := jobs.Add(t.Context(), operator, job); err != nil {
				t.Fatal(err)
			}
		}
		beat := cron.Job{Kind: bus.Heartbeat, Every: time.Hour, Tool: "x"}
		for _, beat.Name = range []string{"beat", "gone"} {
			if _, err := jobs.Put(t.Context(), beat, true); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(at))
		stream, err := b.Stream(t.Context(), bus.Ticks)
		for err == nil && stream.CachedInfo().State.LastSeq <= others+5 {
			_, err = stream.Info(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		var changes errgroup.Group // each waits until the server has published the ticks
		changes.Go(func() error {
			beat.Name, beat.Every = "beat", time.Minute
			_, err := jobs.Put(t.Context(), beat, true)
			return err
		})
		changes.Go(func() error { _, err := jobs.Delete(t.Context(), "gone"); return err })
		for _, r := range []cron.Request{{Name: "once", At: "30m"}, {Name: "often", Every: "1m"}} {
			r.Action = cron.ActionUpdate
			if _, err := jobs.Do(t.Context(), operator, "", r); err != nil {
				t.Error(err)
			}
		}
		if err := jobs.Remove(t.Context(), operator, "removed"); err != nil {
			t.Error(err)
		}
		if err := changes.Wait(); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if tick, err := b.Last(t.Context(), bus.Ticks, b.Tick(bus.Cron, "removed")); err != nil || tick.Sequence > 0 {
			t.Errorf("the job that was removed has the tick %d, %v", tick.Sequence, err)
		}
		if tick, err := b.Last(t.Context(), bus.Ticks, b.Tick(bus.Heartbeat, "gone")); err != nil || tick.Sequence > 0 {
			t.Errorf("the heartbeat that was removed has the tick %d, %v", tick.Sequence, err)
		}
		for _, name := range []string{"once", "often", "beat"} {
			if e, err := jobs.Get(t.Context(), operator, name); err != nil || e.Ended || e.Next.After(at.Add(31*time.Minute)) {
				t.Errorf("%s: next %s, ended %t, %v", name, e.Next, e.Ended, err)
			}
		}
	})
}
