package heartbeat_test

import (
	"context"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// interval of the heartbeats here.
const interval = 30 * time.Minute

// up starts a server on dir, three heartbeats, and the parts of a worker that
// consume ticks and correct the schedules after clock jumps. They run until down is
// called, inside a bubble.
func up(t *testing.T, dir, workspace string, tick func(dueTime time.Time, ok bool)) (b *bus.Bus, down func()) {
	t.Helper()
	s := bustest.Start(t, embedded.Config{Dir: dir, NoSync: true})
	var (
		buses []*bus.Bus
		stops []func()
	)
	run := func(part func(ctx context.Context, b *bus.Bus) error) {
		b := bustest.Connect(t, s, bus.Config{Log: bustest.Log(t)})
		buses = append(buses, b)
		stops = append(stops, bustest.Run(t, func(ctx context.Context) error { return part(ctx, b) }))
	}
	for range 3 {
		run(func(ctx context.Context, b *bus.Bus) error {
			return heartbeat.Run(ctx, b, heartbeat.Config{Workspace: workspace, Every: interval, Poll: 7 * time.Minute, Log: bustest.Log(t)})
		})
	}
	run(func(ctx context.Context, b *bus.Bus) error { cron.New(b).KeepTime(ctx, bustest.Log(t)); return nil })
	run(func(ctx context.Context, b *bus.Bus) error {
		return consume.Run(ctx, b, b.TickConsumer(), consume.Config{Slots: 1}, func(_ context.Context, d *consume.Delivery) error {
			tick(cron.DueTime(d))
			return nil
		})
	})
	return buses[0], func() {
		for _, stop := range stops {
			stop()
		}
		for _, b := range buses {
			b.Close()
		}
		s.Close()
	}
}

// uptimes and uptime of the server, in virtual time. A day takes five seconds.
const (
	uptimes = 2
	uptime  = 3*time.Hour + 10*time.Minute
)

// Three heartbeats share a schedule and the server restarts several times: each due time
// has one tick, and none is missing while the server is up.
func TestHoursOfHeartbeats(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir, workspace := t.TempDir(), t.TempDir()
	write(t, workspace, "look")
	bustest.Bubble(t, func(t *testing.T) {
		var last time.Time
		count := 0
		for n := range uptimes {
			first := true
			_, down := up(t, dir, workspace, func(dueTime time.Time, ok bool) {
				gap := dueTime.Sub(last)
				switch {
				case !ok || !dueTime.After(last):
					t.Errorf("uptime %d: due time %s after %s", n, dueTime, last)
				case first && n > 0 && gap > 90*time.Minute, (!first || n == 0) && !last.IsZero() && gap != interval:
					t.Errorf("uptime %d: due time %s is %s after the previous one", n, dueTime, gap)
				}
				last, first = dueTime, false
				count++
			})
			time.Sleep(uptime)
			down()
			time.Sleep(50 * time.Minute) // an outage, with due times in it
		}
		if count < uptimes*6 || count > uptimes*8 {
			t.Errorf("%d ticks in %d times %s", count, uptimes, uptime)
		}
	})
}

// After an outage of many due times, each heartbeat and job ticks once immediately and
// then continues at its times.
func TestOneTickAfterAnOutage(t *testing.T) {
	dir, workspace := t.TempDir(), t.TempDir()
	write(t, workspace, "look")
	bustest.Bubble(t, func(t *testing.T) {
		var at, dueTimes []time.Time
		tick := func(dueTime time.Time, _ bool) { at, dueTimes = append(at, time.Now()), append(dueTimes, dueTime) }
		b, down := up(t, dir, workspace, tick)
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Name: "hourly", Tool: "x", Cron: "5 * * * *"}, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval + time.Minute)
		down()
		before := len(dueTimes)
		time.Sleep(5 * time.Hour)

		again := time.Now()
		_, down = up(t, dir, workspace, tick)
		time.Sleep(interval + time.Minute)
		down()
		prompt, later := 0, 0
		for _, t := range at[before:] {
			if t.Sub(again) < 10*time.Second {
				prompt++
			} else {
				later++
			}
		}
		if before != 2 || prompt != 2 || later < 1 || later > 2 {
			t.Errorf("%d ticks before the outage, then %d at once and %d later, want 2, 2 and 1 or 2: %v", before, prompt, later, dueTimes)
		}
	})
}

// The clock is set back while the server is down. If it is set back by less than two
// hours, the schedule waits, so that each due time has one tick. Otherwise the clock had
// been wrong before, and the heartbeat restarts.
func TestClockSetBackWhileDown(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	for name, tt := range map[string]struct {
		ahead   time.Duration // of the clock, before it is corrected
		firstIn time.Duration // the latest first tick afterwards
		later   bool          // the due times are later than those before
	}{
		"an hour": {ahead: time.Hour, firstIn: time.Hour + interval, later: true},
		"a month": {ahead: 30 * 24 * time.Hour, firstIn: interval + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir, workspace := t.TempDir(), t.TempDir()
			write(t, workspace, "look")
			var before []time.Time
			bustest.Bubble(t, func(t *testing.T) {
				time.Sleep(tt.ahead)
				_, down := up(t, dir, workspace, func(dueTime time.Time, _ bool) { before = append(before, dueTime) })
				time.Sleep(interval + 5*time.Minute)
				down()
			})
			if len(before) != 1 {
				t.Fatalf("ticks before: %v", before)
			}
			bustest.Bubble(t, func(t *testing.T) { // every bubble starts at the same time
				time.Sleep(interval + 5*time.Minute)
				began := time.Now()
				var after []time.Time
				_, down := up(t, dir, workspace, func(dueTime time.Time, ok bool) {
					if !ok {
						t.Errorf("a tick without a due time")
					}
					after = append(after, dueTime)
				})
				time.Sleep(tt.firstIn + interval)
				down()
				if len(after) < 2 || after[0].Sub(began) > tt.firstIn || after[1].Sub(after[0]) != interval {
					t.Errorf("from %s on, ticks %v", began, after)
				}
				if tt.later && !after[0].After(before[0]) {
					t.Errorf("due time %s after %s", after[0], before[0])
				}
			})
		})
	}
}
