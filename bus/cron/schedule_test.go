package cron_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
)

var operator = cron.Caller{Operator: true}

// ticks consumes the ticks of b until the test ends.
func ticks(t *testing.T, b *bus.Bus) <-chan time.Time {
	t.Helper()
	dueTimes := make(chan time.Time, 100)
	bustest.Run(t, func(ctx context.Context) error {
		return consume.Run(ctx, b, b.TickConsumer(), consume.Config{}, func(_ context.Context, d *consume.Delivery) error {
			due, ok := cron.DueTime(d)
			if !ok {
				return consume.Reject("test", fmt.Errorf("no due time on %s", d.Subject))
			}
			dueTimes <- due
			return nil
		})
	})
	return dueTimes
}

// Three processes put one schedule repeatedly, from the start. It still ticks once a second, and is stored once: none of
// them restarts the interval. Those that create it at once may all say that they changed it.
func TestManyReconcilersOneSchedule(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{})
		dueTimes := ticks(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var changes atomic.Int64
		for range 3 {
			other := bustest.Connect(t, s, bus.Config{})
			wg.Go(func() {
				for tools.Sleep(ctx, 20*time.Millisecond) == nil {
					changed, err := cron.New(other).Put(ctx, cron.Job{Kind: bus.Heartbeat, Name: "main", Every: time.Second, Tool: "x"}, true)
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
					if changed {
						changes.Add(1)
					}
				}
			})
		}
		var last time.Time
		var created int64
		var stored uint64
		for range 20 {
			due := next(t, dueTimes)
			schedule, err := b.Last(t.Context(), bus.Ticks, b.Schedule(bus.Heartbeat, "main"))
			if err != nil {
				t.Fatal(err)
			}
			if last.IsZero() {
				created, stored = changes.Load(), schedule.Sequence
			} else if due.Sub(last) != time.Second {
				t.Errorf("due time %s follows %s", due, last)
			}
			if n := changes.Load(); n != created || n < 1 || schedule.Sequence != stored {
				t.Errorf("%d changes, %d of them at the creation; stored at %d and at %d", n, created, stored, schedule.Sequence)
			}
			last = due
		}
		cancel()
		wg.Wait()
	})
}

func TestScheduleLifecycle(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ctx := t.Context()
	put := func(s cron.Job, want bool) {
		t.Helper()
		if changed, err := cron.New(b).Put(ctx, s, true); err != nil || changed != want {
			t.Errorf("put %+v: changed %v, %v", s, changed, err)
		}
	}
	s := cron.Job{Name: "daily", Cron: "30 9 * * 1-5", TimeZone: "Europe/Berlin", Tool: "x"}
	put(s, true)
	put(s, false)
	first, err := cron.New(b).Get(ctx, operator, "daily")
	if err != nil || first.Cron != s.Cron || first.TimeZone != s.TimeZone || first.Tool != s.Tool {
		t.Fatalf("get: %+v, %v", first, err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if n := first.Next.In(berlin); n.Hour() != 9 || n.Minute() != 30 || !n.After(time.Now()) {
		t.Errorf("next %s", n)
	}
	s.Tool = "y"
	put(s, true)
	put(cron.Job{Kind: bus.Heartbeat, Name: "main", Tool: "x", Every: time.Hour}, true)
	put(cron.Job{Name: "once", Tool: "x", At: time.Now().Add(time.Hour)}, true)

	var names []string
	for s, err := range cron.New(b).List(ctx, operator, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s.Kind+"/"+s.Name)
		if s.Next.Before(time.Now()) {
			t.Errorf("%s is due at %s", s.Name, s.Next)
		}
	}
	if got, want := strings.Join(names, " "), "/daily /once heartbeat/main"; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	for _, want := range []bool{true, false} {
		if existed, err := cron.New(b).Delete(ctx, "main"); err != nil || existed != want {
			t.Errorf("delete: %v, %v", existed, err)
		}
	}
	if _, err := cron.New(b).Get(ctx, operator, "main"); !errors.Is(err, cron.ErrNotFound) {
		t.Errorf("after delete: %v", err)
	}
}

// A schedule with At ticks once at that time, even if its client is not connected, and is
// then deleted.
func TestOneShot(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		dueTimes := ticks(t, b)
		at := time.Now().Add(1300 * time.Millisecond).UTC()
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Name: "once", Tool: "x", At: at}, true); err != nil {
			t.Fatal(err)
		}
		if due := next(t, dueTimes); !due.Equal(at) {
			t.Errorf("due time %s, want %s", due, at)
		}
		ended, err := cron.New(b).Get(t.Context(), operator, "once")
		if err != nil || !ended.At.Equal(at) || !ended.Ended || ended.Revision() != 0 {
			t.Errorf("ended: %+v, %v", ended, err)
		}
		if text := (cron.Answer{Job: &ended}).Text(); !strings.Contains(text, "due, waits for a worker") { // none stored a run
			t.Errorf("without a run: %q", text)
		}
		for _, earlier := range []bool{true, false} { // a job with this name ran before
			due := at
			if earlier {
				due = at.Add(-time.Hour)
			}
			record, err := bus.Encode(cron.RunRecord{Call: "c", Session: ended.Session, Due: due, Deadline: at.Add(time.Hour), Tick: 1})
			if err == nil {
				_, err = b.JetStream().Publish(t.Context(), b.RunOf(bus.Cron, "once"), record)
			}
			if err != nil {
				t.Fatal(err)
			}
			if ended, err = cron.New(b).Get(t.Context(), operator, "once"); err != nil || (ended.LastRun == nil) != earlier {
				t.Errorf("earlier %v: last run %+v, %v", earlier, ended.LastRun, err)
			}
			listed := false
			for e, err := range cron.New(b).List(t.Context(), operator, "", "") {
				listed = listed || e.Name == "once" && err == nil
			}
			if listed != earlier {
				t.Errorf("earlier %v: listed %v", earlier, listed)
			}
		}
		if err := cron.New(b).Remove(t.Context(), operator, "once"); err != nil {
			t.Error(err)
		}
		if _, err := cron.New(b).Get(t.Context(), operator, "once"); !errors.Is(err, cron.ErrNotFound) {
			t.Errorf("it is left after its removal: %v", err)
		}
	})
}

// The due times of a cron schedule are the times of the expression, not of the publishing.
func TestCronDueTimes(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		dueTimes := ticks(t, b)
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Name: "often", Tool: "x", Cron: "*/2 * * * * *", TimeZone: "Asia/Shanghai"}, true); err != nil {
			t.Fatal(err)
		}
		first := next(t, dueTimes)
		if second := next(t, dueTimes); second.Sub(first) != 2*time.Second || first.Second()%2 != 0 || first.Nanosecond() != 0 {
			t.Errorf("due times %s, %s", first, second)
		}
		if e, err := cron.New(b).Get(t.Context(), operator, "often"); err != nil || e.LastDue().Before(first) {
			t.Errorf("last due time %s, %v", e.LastDue(), err)
		}
	})
}

// If no worker consumes the ticks for a while, one tick follows.
func TestOneCatchUpTick(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Kind: bus.Heartbeat, Name: "main", Tool: "x", Every: time.Second}, true); err != nil {
			t.Fatal(err)
		}
		var last time.Time
		for deadline := time.Now().Add(bustest.Timeout); ; {
			e, err := cron.New(b).Get(t.Context(), operator, "main")
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("waiting for ticks: %v", err)
			}
			if !last.IsZero() && e.LastDue().Sub(last) >= 2*time.Second {
				break
			}
			if last.IsZero() {
				last = e.LastDue()
			}
			time.Sleep(50 * time.Millisecond)
		}
		stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Ticks))
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != 3 { // the schedule and two ticks, of which workers take the newest
			t.Errorf("%d messages are kept", n)
		}
	})
}

// A disabled schedule does not tick, keeps its settings, and can be enabled.
func TestDisabledSchedule(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		dueTimes := ticks(t, b)
		s := cron.Job{Name: "job", Every: time.Second, Tool: "x"}
		put := func() {
			t.Helper()
			if changed, err := cron.New(b).Put(t.Context(), s, true); !changed || err != nil {
				t.Fatal(changed, err)
			}
		}
		put()
		next(t, dueTimes)
		s.Disabled = true
		put()
		got, err := cron.New(b).Get(t.Context(), operator, "job")
		if err != nil || !got.Disabled || !got.Next.IsZero() || got.Every != s.Every || got.Tool != "x" {
			t.Errorf("disabled: %+v, %v", got, err)
		}
		for len(dueTimes) > 0 {
			<-dueTimes
		}
		// While another schedule ticks twice, the disabled one would tick, too.
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Name: "other", Tool: "x", Cron: "* * * * * *"}, true); err != nil {
			t.Fatal(err)
		}
		a, c := next(t, dueTimes), next(t, dueTimes)
		if d := c.Sub(a); d != time.Second {
			t.Errorf("ticks at %s and %s: the disabled schedule ticks", a, c)
		}
		if got, err := enable(t.Context(), cron.New(b), operator, "job", true); err != nil || got.Disabled || got.Next.IsZero() {
			t.Errorf("enabled: %+v, %v", got, err)
		}
	})
}

func TestScheduleErrors(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, test := range []struct {
		schedule cron.Job
		want     string
	}{
		{cron.Job{}, "exactly one"},
		{cron.Job{Every: time.Hour, Cron: "@daily"}, "exactly one"},
		{cron.Job{Every: time.Millisecond}, "at least 1s"},
		{cron.Job{Every: -time.Hour}, "at least 1s"},
		{cron.Job{Every: 1500 * time.Millisecond}, "whole seconds"},
		{cron.Job{Every: time.Hour, TimeZone: "UTC"}, "time zone"},
		{cron.Job{Cron: "* * * *"}, "4 fields"},
		{cron.Job{Cron: "61 * * * *"}, `minute "61"`},
		{cron.Job{Cron: "60/5 * * * *"}, "want 0 to 59"},
		{cron.Job{Cron: "*/0 * * * *"}, `minute "*/0"`},
		{cron.Job{Cron: "0 22-2 * * *"}, "growing ranges"},
		{cron.Job{Cron: "0 0 L * *"}, "not L"},
		{cron.Job{Cron: "0 0 * * 5#2"}, "not L"},
		{cron.Job{Cron: "0 0 1,,2 * *"}, "day of the month"},
		{cron.Job{Cron: ", 0 * * * *"}, `second ","`},
		{cron.Job{Cron: "1, * * * *"}, `minute "1,"`},
		{cron.Job{Cron: "*-5 * * * *"}, `minute "*-5"`},
		{cron.Job{Cron: "TZ=UTC 0 9 * * *"}, `second "TZ=UTC"`},
		{cron.Job{Cron: "0 0 * * 5-8"}, `weekday "5-8": want 0 to 7`},
		{cron.Job{Cron: "0 0 30 2 *"}, "never due"},
		{cron.Job{Cron: strings.Repeat("1,", 1000) + " * * * *"}, "at most 1000"},
		{cron.Job{Cron: "@daily", TimeZone: "Mars/Olympus"}, "not known"},
		{cron.Job{Cron: "@daily", TimeZone: "Local"}, "use a name"},
		{cron.Job{Every: 2562047 * time.Hour}, "100 years at most"},
		{cron.Job{At: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}, "within 100 years"},
		{cron.Job{At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}, "within 100 years"},
		{cron.Job{Every: time.Hour, Name: "*"}, "is not of the form"},
		{cron.Job{Every: time.Hour, Name: "a.b"}, "is not of the form"},
	} {
		s := test.schedule
		s.Tool = "x"
		if s.Name == "" {
			s.Name = "job"
		}
		if _, err := cron.New(b).Put(t.Context(), s, true); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("put %+v: %v, want %q", s, err, test.want)
		}
	}
}

func TestConflictIsFinal(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	m := bus.Message{Subject: b.RunOf("cron", "x"), Body: []byte("1"), Header: bus.ExpectRevision(7)}
	if _, err := b.Publish(t.Context(), m); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

func next(t *testing.T, dueTimes <-chan time.Time) time.Time {
	t.Helper()
	select {
	case due := <-dueTimes:
		return due
	case <-time.After(bustest.Timeout):
		t.Fatal("no tick arrived")
		panic("unreachable")
	}
}

// remove does not remove a job that was replaced in the meantime.
func TestRemoveRevision(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	s := cron.Job{Name: "job", Tool: "x", Every: time.Second}
	revision := func() uint64 {
		t.Helper()
		if _, err := cron.New(b).Put(t.Context(), s, true); err != nil {
			t.Fatal(err)
		}
		got, err := cron.New(b).Get(t.Context(), operator, "job")
		if err != nil {
			t.Fatal(err)
		}
		return got.Revision()
	}
	first := revision()
	s.Tool = "other"
	second := revision()
	for _, old := range []uint64{0, first} {
		if err := cron.New(b).RemoveRevision(t.Context(), "job", old); !errors.Is(err, bus.ErrConflict) {
			t.Errorf("remove revision %d: %v", old, err)
		}
	}
	if err := cron.New(b).RemoveRevision(t.Context(), "job", second); err != nil {
		t.Error(err)
	}
	if _, err := cron.New(b).Get(t.Context(), operator, "job"); !errors.Is(err, cron.ErrNotFound) {
		t.Errorf("it is left: %v", err)
	}
}
