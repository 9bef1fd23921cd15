package cron_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// The server is stopped uncleanly more often than an interval ends: it goes on with a copy
// of its directory from while it ran. Each due time has one tick all the same.
func TestIntervalAfterUncleanStops(t *testing.T) {
	for _, kind := range []string{bus.Cron, bus.Heartbeat} {
		t.Run(kind, func(t *testing.T) {
			root := t.TempDir()
			bustest.Bubble(t, func(t *testing.T) {
				const every = 20 * time.Second
				var begin time.Time
				ticks := map[time.Duration]int{} // by due time
				dir := root + "/0"
				for n := range 10 {
					s := bustest.Start(t, embedded.Config{Dir: dir})
					b := bustest.Connect(t, s, bus.Config{Log: bustest.Log(t)})
					if n == 0 {
						sched := cron.Job{Kind: strings.TrimPrefix(kind, bus.Cron), Name: "slow", Every: every, Tool: "x"}
						if _, err := cron.New(b).Put(t.Context(), sched, true); err != nil {
							t.Fatal(err)
						}
						begin = time.Now().Round(time.Second)
					}
					stops := []func(){
						bustest.Run(t, func(ctx context.Context) error { cron.New(b).KeepTime(ctx, bustest.Log(t)); return nil }),
						bustest.Run(t, func(ctx context.Context) error {
							return consume.Run(ctx, b, b.TickConsumer(), consume.Config{Slots: 1}, func(_ context.Context, d *consume.Delivery) error {
								due, ok := cron.DueTime(d)
								if !ok {
									t.Errorf("a tick without a due time: %v", d.Subject)
								}
								ticks[due.Sub(begin)]++
								return nil
							})
						}),
					}
					time.Sleep(12500 * time.Millisecond)
					next := root + "/" + string(rune('1'+n))
					if err := os.CopyFS(next, os.DirFS(dir)); err != nil {
						t.Fatal(err)
					}
					for _, stop := range stops {
						stop()
					}
					b.Close()
					s.Close()
					dir = next
				}
				for due := every; due < time.Since(begin)-every; due += every {
					if ticks[due] == 0 {
						t.Errorf("no tick was due %s after the start", due)
					}
				}
				for due := range ticks {
					if due%every != 0 {
						t.Errorf("a tick was due %s after the start", due)
					}
				}
			})
		})
	}
}

// A job that was changed, and then removed or run, does not come back after a kill of the server.
func TestKillAfterRemoval(t *testing.T) {
	root := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Start(t, embedded.Config{Dir: root + "/0"})
		b := bustest.Connect(t, s, bus.Config{Log: bustest.Log(t)})
		jobs := cron.New(b)
		for _, every := range []time.Duration{time.Hour, 2 * time.Hour} {
			for _, job := range []cron.Job{
				{Name: "removed", Every: every, Tool: "x"}, {Name: "kept", Every: every, Tool: "x"},
				{Name: "ran", At: time.Now().Add(2*time.Hour - every + 2*time.Second).Truncate(time.Second), Tool: "x"},
			} {
				if _, err := jobs.Put(t.Context(), job, true); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := jobs.Remove(t.Context(), operator, "removed"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // later, the server writes its index
		if err := os.CopyFS(root+"/1", os.DirFS(root+"/0")); err != nil {
			t.Fatal(err)
		}
		b.Close()
		s.Close()
		b = bustest.Connect(t, bustest.Start(t, embedded.Config{Dir: root + "/1"}), bus.Config{Log: bustest.Log(t)})
		for e, err := range cron.New(b).List(t.Context(), operator, "", "") {
			due := e.Name == "ran" && e.Ended // its tick waits for a worker
			if err != nil || !due && (e.Name != "kept" || e.Every != 2*time.Hour) {
				t.Error(e.Job, err)
			}
		}
	})
}
