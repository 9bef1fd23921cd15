package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/schedule"
)

// ticks consumes the ticks of b until the test ends.
func ticks(t *testing.T, b *bus.Bus) <-chan time.Time {
	t.Helper()
	dueTimes := make(chan time.Time, 100)
	bustest.Run(t, func(ctx context.Context) error {
		return b.Consume(ctx, b.TickConsumer(), bus.ConsumeConfig{}, func(_ context.Context, d *bus.Delivery) error {
			due, ok := schedule.DueTime(d)
			if !ok {
				return bus.Reject("test", fmt.Errorf("no due time on %s", d.Subject))
			}
			dueTimes <- due
			return nil
		})
	})
	return dueTimes
}

// Three processes put one schedule repeatedly. It still ticks once a second, so none of
// them restarts the interval.
func TestManyReconcilersOneSchedule(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	b := bustest.Connect(t, s, bus.Config{})
	dueTimes := ticks(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	changes := 0
	for range 3 {
		other := bustest.Connect(t, s, bus.Config{})
		wg.Go(func() {
			for ctx.Err() == nil {
				changed, err := schedule.New(other).Put(ctx, schedule.Schedule{Kind: bus.Heartbeat, Name: "main", Every: time.Second, Body: []byte("body")})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				if changed {
					mu.Lock()
					changes++
					mu.Unlock()
				}
			}
		})
	}
	var last time.Time
	for range 4 {
		due := next(t, dueTimes)
		if !last.IsZero() && due.Sub(last) != time.Second {
			t.Errorf("due time %s follows %s", due, last)
		}
		last = due
	}
	cancel()
	wg.Wait()
	if changes != 1 {
		t.Errorf("the schedule was changed %d times", changes)
	}
}

func TestScheduleLifecycle(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ctx := t.Context()
	put := func(s schedule.Schedule, want bool) {
		t.Helper()
		if changed, err := schedule.New(b).Put(ctx, s); err != nil || changed != want {
			t.Errorf("put %+v: changed %v, %v", s, changed, err)
		}
	}
	s := schedule.Schedule{Kind: bus.Cron, Name: "daily", Cron: "30 9 * * 1-5", TimeZone: "Europe/Berlin", Body: []byte(`{"tool":"x"}`)}
	put(s, true)
	put(s, false)
	first, ok, err := schedule.New(b).Get(ctx, bus.Cron, "daily")
	if err != nil || !ok || first.Cron != "0 30 9 * * 1-5" || first.TimeZone != s.TimeZone || string(first.Body) != string(s.Body) {
		t.Fatalf("get: %+v, %v, %v", first, ok, err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if n := first.Next.In(berlin); n.Hour() != 9 || n.Minute() != 30 || !n.After(time.Now()) {
		t.Errorf("next %s", n)
	}
	s.Body = []byte(`{"tool":"y"}`)
	put(s, true)
	put(schedule.Schedule{Kind: bus.Heartbeat, Name: "main", Every: time.Hour}, true)
	put(schedule.Schedule{Kind: bus.Cron, Name: "once", At: time.Now().Add(time.Hour)}, true)

	var names []string
	for s, err := range schedule.New(b).List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s.Kind+"/"+s.Name)
		if s.Next.Before(time.Now()) {
			t.Errorf("%s is due at %s", s.Name, s.Next)
		}
	}
	if got, want := strings.Join(names, " "), "cron/daily cron/once heartbeat/main"; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	for _, want := range []bool{true, false} {
		if existed, err := schedule.New(b).Delete(ctx, bus.Cron, "daily"); err != nil || existed != want {
			t.Errorf("delete: %v, %v", existed, err)
		}
	}
	if _, ok, err := schedule.New(b).Get(ctx, bus.Cron, "daily"); ok || err != nil {
		t.Errorf("after delete: %v, %v", ok, err)
	}
}

// A schedule with At ticks once at that time, even if its client is not connected, and is
// then deleted.
func TestOneShot(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	dueTimes := ticks(t, b)
	at := time.Now().Add(1300 * time.Millisecond).UTC()
	if _, err := schedule.New(b).Put(t.Context(), schedule.Schedule{Kind: bus.Cron, Name: "once", At: at}); err != nil {
		t.Fatal(err)
	}
	if due := next(t, dueTimes); !due.Equal(at) {
		t.Errorf("due time %s, want %s", due, at)
	}
	if _, ok, err := schedule.New(b).Get(t.Context(), bus.Cron, "once"); ok || err != nil {
		t.Errorf("the schedule is left: %v, %v", ok, err)
	}
	ended, ok, err := schedule.New(b).GetEnded(t.Context(), bus.Cron, "once")
	if err != nil || !ok || !ended.At.Equal(at) || ended.Revision != 0 {
		t.Errorf("ended: %+v, %v, %v", ended, ok, err)
	}
	if err := schedule.New(b).DeleteRevision(t.Context(), bus.Cron, "once", 0); err != nil {
		t.Error(err)
	}
	if _, ok, err := schedule.New(b).GetEnded(t.Context(), bus.Cron, "once"); ok || err != nil {
		t.Errorf("it is left after its removal: %v, %v", ok, err)
	}
}

// The due times of a cron schedule are the times of the expression, not of the publishing.
func TestCronDueTimes(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	dueTimes := ticks(t, b)
	if _, err := schedule.New(b).Put(t.Context(), schedule.Schedule{Kind: bus.Cron, Name: "often", Cron: "*/2 * * * * *", TimeZone: "Asia/Shanghai"}); err != nil {
		t.Fatal(err)
	}
	first := next(t, dueTimes)
	if second := next(t, dueTimes); second.Sub(first) != 2*time.Second || first.Second()%2 != 0 || first.Nanosecond() != 0 {
		t.Errorf("due times %s, %s", first, second)
	}
	if s, _, err := schedule.New(b).Get(t.Context(), bus.Cron, "often"); err != nil || s.Last.Before(first) {
		t.Errorf("last due time %s, %v", s.Last, err)
	}
}

// If no worker consumes the ticks for a while, one tick follows.
func TestOneCatchUpTick(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	if _, err := schedule.New(b).Put(t.Context(), schedule.Schedule{Kind: bus.Heartbeat, Name: "main", Every: time.Second}); err != nil {
		t.Fatal(err)
	}
	var last time.Time
	for deadline := time.Now().Add(bustest.Timeout); ; {
		s, _, err := schedule.New(b).Get(t.Context(), bus.Heartbeat, "main")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("waiting for ticks: %v", err)
		}
		if !last.IsZero() && s.Last.Sub(last) >= 2*time.Second {
			break
		}
		if last.IsZero() {
			last = s.Last
		}
		time.Sleep(50 * time.Millisecond)
	}
	stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Ticks))
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 2 { // the schedule and the newest tick
		t.Errorf("%d messages are kept", n)
	}
}

// A disabled schedule does not tick, keeps its settings, and can be enabled.
func TestDisabledSchedule(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	dueTimes := ticks(t, b)
	s := schedule.Schedule{Kind: bus.Cron, Name: "job", Every: time.Second, TTL: time.Minute, Body: []byte("x")}
	put := func() {
		t.Helper()
		if changed, err := schedule.New(b).Put(t.Context(), s); !changed || err != nil {
			t.Fatal(changed, err)
		}
	}
	put()
	next(t, dueTimes)
	s.Disabled = true
	put()
	got, ok, err := schedule.New(b).Get(t.Context(), bus.Cron, "job")
	if !ok || err != nil || !got.Disabled || !got.Next.IsZero() || got.Every != s.Every || got.TTL != s.TTL || string(got.Body) != "x" {
		t.Errorf("disabled: %+v, %v, %v", got, ok, err)
	}
	for len(dueTimes) > 0 {
		<-dueTimes
	}
	// While another schedule ticks twice, the disabled one would tick, too.
	if _, err := schedule.New(b).Put(t.Context(), schedule.Schedule{Kind: bus.Cron, Name: "other", Cron: "* * * * * *"}); err != nil {
		t.Fatal(err)
	}
	a, c := next(t, dueTimes), next(t, dueTimes)
	if d := c.Sub(a); d != time.Second {
		t.Errorf("ticks at %s and %s: the disabled schedule ticks", a, c)
	}
	if err := schedule.New(b).Update(t.Context(), s, got.Revision+1); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("replace another revision: %v", err)
	}
	s.Disabled = false
	if err := schedule.New(b).Update(t.Context(), s, got.Revision); err != nil {
		t.Error(err)
	}
	if got, _, err := schedule.New(b).Get(t.Context(), bus.Cron, "job"); err != nil || got.Disabled || got.Next.IsZero() {
		t.Errorf("enabled: %+v, %v", got, err)
	}
}

func TestScheduleErrors(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, test := range []struct {
		schedule schedule.Schedule
		want     string
	}{
		{schedule.Schedule{}, "exactly one"},
		{schedule.Schedule{Every: time.Hour, Cron: "@daily"}, "exactly one"},
		{schedule.Schedule{Every: time.Millisecond}, "at least 1s"},
		{schedule.Schedule{Every: -time.Hour}, "at least 1s"},
		{schedule.Schedule{Every: 1500 * time.Millisecond}, "whole seconds"},
		{schedule.Schedule{Every: time.Hour, TimeZone: "UTC"}, "time zone"},
		{schedule.Schedule{Cron: "* * * *"}, "4 fields"},
		{schedule.Schedule{Cron: "61 * * * *"}, `minute "61"`},
		{schedule.Schedule{Cron: "60/5 * * * *"}, "want 0 to 59"},
		{schedule.Schedule{Cron: "*/0 * * * *"}, `minute "*/0"`},
		{schedule.Schedule{Cron: "0 22-2 * * *"}, "growing ranges"},
		{schedule.Schedule{Cron: "0 0 L * *"}, "not L"},
		{schedule.Schedule{Cron: "0 0 * * 5#2"}, "not L"},
		{schedule.Schedule{Cron: "0 0 1,,2 * *"}, "day of the month"},
		{schedule.Schedule{Cron: ", 0 * * * *"}, `second ","`},
		{schedule.Schedule{Cron: "1, * * * *"}, `minute "1,"`},
		{schedule.Schedule{Cron: "*-5 * * * *"}, `minute "*-5"`},
		{schedule.Schedule{Cron: "TZ=UTC 0 9 * * *"}, `second "TZ=UTC"`},
		{schedule.Schedule{Cron: "0 0 * * 5-8"}, `weekday "5-8": want 0 to 7`},
		{schedule.Schedule{Cron: "0 0 30 2 *"}, "never due"},
		{schedule.Schedule{Cron: strings.Repeat("1,", 1000) + " * * * *"}, "at most 1000"},
		{schedule.Schedule{Cron: "@daily", TimeZone: "Mars/Olympus"}, "not known"},
		{schedule.Schedule{Cron: "@daily", TimeZone: "Local"}, "use a name"},
		{schedule.Schedule{Every: 2562047 * time.Hour}, "100 years at most"},
		{schedule.Schedule{At: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}, "within 100 years"},
		{schedule.Schedule{At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}, "within 100 years"},
		{schedule.Schedule{Every: time.Hour, Name: "*"}, "is not of the form"},
		{schedule.Schedule{Every: time.Hour, Name: "a.b"}, "is not of the form"},
	} {
		s := test.schedule
		s.Kind = bus.Cron
		if s.Name == "" {
			s.Name = "job"
		}
		if _, err := schedule.New(b).Put(t.Context(), s); err == nil || !strings.Contains(err.Error(), test.want) {
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

// DeleteRevision does not delete a schedule that was replaced in the meantime.
func TestDeleteRevision(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	s := schedule.Schedule{Kind: bus.Cron, Name: "job", Every: time.Second}
	revision := func() uint64 {
		t.Helper()
		if _, err := schedule.New(b).Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		got, ok, err := schedule.New(b).Get(t.Context(), bus.Cron, "job")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return got.Revision
	}
	first := revision()
	s.Body = []byte("other")
	second := revision()
	for _, old := range []uint64{0, first} {
		if err := schedule.New(b).DeleteRevision(t.Context(), bus.Cron, "job", old); !errors.Is(err, bus.ErrConflict) {
			t.Errorf("remove revision %d: %v", old, err)
		}
	}
	if err := schedule.New(b).DeleteRevision(t.Context(), bus.Cron, "job", second); err != nil {
		t.Error(err)
	}
	if _, ok, err := schedule.New(b).Get(t.Context(), bus.Cron, "job"); ok || err != nil {
		t.Errorf("it is left: %v, %v", ok, err)
	}
}
