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
	"github.com/stevedore-bus/stevedore/bus/schedule"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// jump sets the clock that everything in this process sees.
func jump(t *testing.T, by time.Duration) {
	t.Logf("%s: the clock jumps by %s", time.Now().UTC().Format(time.DateTime), by)
	time.WallOffset.Add(int64(by / time.Second))
}

// prompt is how soon a tick comes after its time, or after the clock was set or
// the server came back.
const prompt = 15 * time.Second

// Three heartbeats for a week, the clock jumps by an hour now and then, either
// way, and the server is restarted: each slot ticks once at most, none is missing
// while the server is up, and none is late.
func TestJumpsOfAWeek(t *testing.T) {
	t.Cleanup(func() { time.WallOffset.Store(0) })
	dir, workspace := t.TempDir(), t.TempDir()
	write(t, workspace, "look")
	bustest.Bubble(t, func(t *testing.T) {
		var (
			random = rand.New(rand.NewPCG(1, 2))
			began  = time.Now() // and with its monotonic reading, the time that really passes

			mu      sync.Mutex
			last    time.Time // slot
			changed time.Time // when the clock or the server was, last
			count   int
		)
		punctual := func(now time.Time) { // mu is held
			if last.IsZero() {
				return
			}
			if due := last.Add(interval); now.Round(0).Sub(due) > prompt && now.Sub(changed) > prompt {
				t.Errorf("%s: the slot %s is missing or late", now.UTC().Format(time.DateTime), due.Format(time.DateTime))
			}
		}
		tick := func(slot time.Time, ok bool) {
			mu.Lock()
			defer mu.Unlock()
			if !ok || slot.Before(last.Add(interval)) {
				t.Errorf("slot %s after %s", slot, last)
			}
			punctual(time.Now())
			last = slot
			count++
		}
		touch := func(do func()) {
			mu.Lock()
			punctual(time.Now())
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
			t.Error("that is too little to prove anything")
		}
	})
}

// A machine sleeps over the time of a daily job: the job runs when the machine
// wakes, and what is scheduled afterwards is in time. The server alone would wait
// on for as long as the machine slept.
func TestJumpOverADailyJob(t *testing.T) {
	t.Cleanup(func() { time.WallOffset.Store(0) })
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		slots := make(chan time.Time, 10)
		b, down := up(t, dir, t.TempDir(), func(slot time.Time, _ bool) { slots <- slot })
		defer down()
		put := func(s schedule.Schedule) {
			t.Helper()
			s.Kind = bus.Cron
			if _, err := schedule.New(b).Put(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(within time.Duration, want time.Time) {
			t.Helper()
			select {
			case slot := <-slots:
				if !slot.Equal(want) {
					t.Errorf("slot %s, want %s", slot, want)
				}
			case <-time.After(within):
				t.Errorf("no tick for %s; it is %s", want, time.Now())
			}
		}
		day := time.Now().UTC().Truncate(24 * time.Hour)
		put(schedule.Schedule{Name: "daily", Cron: "0 9 * * *"})
		time.Sleep(time.Hour)
		jump(t, 9*time.Hour)
		expect(prompt, day.Add(9*time.Hour))

		// The job whose time passed is gone, and the server waits for it still.
		if _, err := schedule.New(b).Delete(t.Context(), bus.Cron, "daily"); err != nil {
			t.Fatal(err)
		}
		put(schedule.Schedule{Name: "evening", Cron: "0 20 * * *"})
		time.Sleep(time.Minute)
		if _, err := schedule.New(b).Delete(t.Context(), bus.Cron, "evening"); err != nil {
			t.Fatal(err)
		}
		jump(t, 11*time.Hour)
		time.Sleep(prompt)
		at := time.Now().Add(5 * time.Minute).UTC().Truncate(time.Second)
		put(schedule.Schedule{Name: "once", At: at})
		expect(5*time.Minute+prompt, at)

		// A clock that was wrong by a month is set right.
		put(schedule.Schedule{Name: "hourly", Cron: "0 * * * *"})
		jump(t, 30*24*time.Hour)
		expect(prompt, time.Now().UTC().Truncate(time.Hour))
		time.Sleep(prompt) // a jump there and back at once is none
		jump(t, -30*24*time.Hour)
		expect(time.Hour+prompt, time.Now().UTC().Truncate(time.Hour).Add(time.Hour))
	})
}

// The clock jumps while a call runs: its lease is over by the server's clock, and
// it runs once all the same, on two workers that share the queue.
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
					w := worker.New(bustest.Connect(t, s, bus.Config{}), registry, plain{}, worker.Config{Name: name, Log: bustest.Log(t)})
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan error, 1)
					go func() { done <- w.Run(ctx) }()
					t.Cleanup(func() {
						cancel()
						if err := <-done; err != nil {
							t.Error(err)
						}
					})
				}
				b := bustest.Connect(t, s, bus.Config{})
				results := bustest.Subscribe(t, b, "stevedore.result.>")
				if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call(bus.DefaultQueue, "slow"), Body: []byte(`{"id":"1","session":"s"}`)}); err != nil {
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
