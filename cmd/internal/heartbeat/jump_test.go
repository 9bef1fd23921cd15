//go:build clockjump

package heartbeat_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// jump sets the clock of this process.
func jump(t *testing.T, by time.Duration) {
	t.Logf("%s: the clock jumps by %s", time.Now().UTC().Format(time.DateTime), by)
	time.WallOffset.Add(int64(by / time.Second))
}

// prompt is the maximum delay of a tick after its time, or after a clock jump or a
// server restart.
const prompt = 15 * time.Second

// Three heartbeats run for a week, while the clock jumps by an hour in both
// directions and the server restarts: each due time has at most one tick, and none is late
// or missing while the server is up.
func TestJumpsOfAWeek(t *testing.T) {
	t.Cleanup(func() { time.WallOffset.Store(0) })
	dir, workspace := t.TempDir(), t.TempDir()
	write(t, workspace, "look")
	bustest.Bubble(t, func(t *testing.T) {
		var (
			random = rand.New(rand.NewPCG(1, 2))
			began  = time.Now() // its monotonic reading measures the real time

			mu      sync.Mutex
			last    time.Time // the last due time
			changed time.Time // the last clock jump or server restart
			count   int
		)
		checkDue := func(now time.Time) { // mu is held
			if last.IsZero() {
				return
			}
			if due := last.Add(interval); now.Round(0).Sub(due) > prompt && now.Sub(changed) > prompt {
				t.Errorf("%s: the due time %s is missing or late", now.UTC().Format(time.DateTime), due.Format(time.DateTime))
			}
		}
		tick := func(dueTime time.Time, ok bool) {
			mu.Lock()
			defer mu.Unlock()
			if !ok || dueTime.Before(last.Add(interval)) {
				t.Errorf("due time %s after %s", dueTime, last)
			}
			checkDue(time.Now())
			last = dueTime
			count++
		}
		touch := func(do func()) {
			mu.Lock()
			checkDue(time.Now())
			changed = time.Now().AddDate(1, 0, 0) // a tick may arrive before do returns
			mu.Unlock()
			do()
			mu.Lock()
			changed = time.Now()
			mu.Unlock()
		}
		pause := func(d time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(d)))) }

		touch(func() {})
		_, down := up(t, dir, workspace, tick)
		jumps, restarts := 0, 0
		for time.Since(began) < 7*24*time.Hour {
			pause(6 * time.Hour)
			switch random.IntN(3) {
			case 0:
				touch(func() { jump(t, time.Hour) })
				jumps++
			case 1:
				touch(func() { jump(t, -time.Hour) })
				jumps++
			case 2:
				touch(func() {
					down()
					if random.IntN(2) == 0 {
						jump(t, []time.Duration{time.Hour, -time.Hour}[random.IntN(2)])
					}
					pause(time.Hour)
					_, down = up(t, dir, workspace, tick)
				})
				restarts++
			}
		}
		touch(down)
		t.Logf("%d ticks, %d jumps, %d restarts in %s, %s of them by the clock", count, jumps, restarts,
			time.Since(began), time.Now().Round(0).Sub(began.Round(0)))
		if jumps < 10 || restarts < 5 || count < 200 {
			t.Error("too few events for this test")
		}
	})
}

// A machine sleeps at the time of a daily job: the job runs when the machine wakes
// up, and later schedules are on time. Without KeepTime, the server would wait for
// as long as the machine slept.
func TestJumpOverADailyJob(t *testing.T) {
	t.Cleanup(func() { time.WallOffset.Store(0) })
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		dueTimes := make(chan time.Time, 10)
		b, down := up(t, dir, t.TempDir(), func(dueTime time.Time, _ bool) { dueTimes <- dueTime })
		defer down()
		put := func(j cron.Job) {
			t.Helper()
			j.Tool = "x"
			if _, err := cron.New(b).Put(t.Context(), j, true); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(within time.Duration, want time.Time) {
			t.Helper()
			select {
			case dueTime := <-dueTimes:
				if !dueTime.Equal(want) {
					t.Errorf("due time %s, want %s", dueTime, want)
				}
			case <-time.After(within):
				t.Errorf("no tick for %s; it is %s", want, time.Now())
			}
		}
		day := time.Now().UTC().Truncate(24 * time.Hour)
		put(cron.Job{Name: "daily", Cron: "0 9 * * *"})
		time.Sleep(time.Hour)
		jump(t, 9*time.Hour)
		expect(prompt, day.Add(9*time.Hour))

		// The next job is removed, but the server still waits for its time.
		if err := cron.New(b).Remove(t.Context(), operator, "daily"); err != nil {
			t.Fatal(err)
		}
		put(cron.Job{Name: "evening", Cron: "0 20 * * *"})
		time.Sleep(time.Minute)
		if err := cron.New(b).Remove(t.Context(), operator, "evening"); err != nil {
			t.Fatal(err)
		}
		jump(t, 11*time.Hour)
		time.Sleep(prompt)
		at := time.Now().Add(5 * time.Minute).UTC().Truncate(time.Second)
		put(cron.Job{Name: "once", At: at})
		expect(5*time.Minute+prompt, at)

		// The clock is wrong by a month and then corrected.
		put(cron.Job{Name: "hourly", Cron: "0 * * * *"})
		jump(t, 30*24*time.Hour)
		expect(prompt, time.Now().UTC().Truncate(time.Hour))
		time.Sleep(prompt) // KeepTime does not see a jump that is reversed immediately
		jump(t, -30*24*time.Hour)
		expect(time.Hour+prompt, time.Now().UTC().Truncate(time.Hour).Add(time.Hour))
	})
}

// KeepTime runs a job that is due in the hour that the clocks skip in March, when they have gone
// forward.
func TestJumpToASkippedHour(t *testing.T) {
	t.Cleanup(func() { time.WallOffset.Store(0) })
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		made := make(chan bool, 10)
		b, down := up(t, dir, t.TempDir(), func(_ time.Time, ok bool) { made <- !ok })
		defer down()
		forward := time.Date(2000, 3, 26, 1, 0, 0, 0, time.UTC) // in Berlin
		jump(t, time.Until(forward)-10*time.Minute)
		time.Sleep(prompt)
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Name: "night", Tool: "x", Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}, true); err != nil {
			t.Fatal(err)
		}
		select {
		case ours := <-made:
			if late := time.Since(forward); !ours || late < 0 || late > prompt {
				t.Errorf("a tick %s after the clocks went forward, from KeepTime: %t", late, ours)
			}
		case <-time.After(20 * time.Hour):
			t.Error("no tick")
		}
	})
}

// If the clock jumps while a call runs, its lease ends by the server's clock, but
// the call runs only once, with two workers on the queue.
func TestJumpWhileACallRuns(t *testing.T) {
	t.Cleanup(func() { time.WallOffset.Store(0) })
	for _, by := range []time.Duration{time.Hour, -time.Hour, 40 * 24 * time.Hour} {
		for _, effect := range []tools.Effect{tools.Idempotent, tools.Once} {
			bustest.Bubble(t, func(t *testing.T) {
				var runs atomic.Int64
				tool, err := tools.NewTool("slow", "is slow", func(context.Context, tools.Call, struct{}) *tools.Result {
					runs.Add(1)
					time.Sleep(3 * time.Minute)
					return tools.NewToolResult("done")
				})
				if err != nil {
					t.Fatal(err)
				}
				s := bustest.Server(t)
				for _, name := range []string{"one", "two"} {
					registry := tools.NewRegistry(zerolog.Nop())
					if err := registry.Register(tool.WithEffect(effect)); err != nil {
						t.Fatal(err)
					}
					w := worker.New(bustest.Connect(t, s, bus.Config{}), registry, workertest.Plain{}, worker.Config{Name: name, Log: bustest.Log(t)})
					bustest.Run(t, w.Run)
				}
				b := bustest.Connect(t, s, bus.Config{})
				results := bustest.Subscribe(t, b, "stevedore.result.>")
				if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call(bus.DefaultQueue, "slow", "s", "1"), Body: []byte(`{"id":"1","session":"s"}`)}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				jump(t, by)
				if msg, err := results.NextMsg(5 * time.Minute); err != nil || !strings.Contains(string(msg.Data), `"outcome":"completed"`) {
					t.Errorf("%s, %s: no result: %v", by, effect, err)
				}
				time.Sleep(5 * time.Minute)
				if n := runs.Load(); n != 1 {
					t.Errorf("%s, %s: %d runs", by, effect, n)
				}
			})
		}
	}
}
