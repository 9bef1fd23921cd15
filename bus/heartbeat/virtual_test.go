package heartbeat_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/heartbeat"
)

func TestMain(m *testing.M) {
	ats.Register() // the server's clock, outside of all bubbles
	code := m.Run()
	ats.Unregister()
	os.Exit(code)
}

// uptimes of the server, in virtual time. A week of days was run as well; a day
// takes five seconds.
const (
	uptimes = 3
	uptime  = 6*time.Hour + 10*time.Minute
)

// Three heartbeats keep one schedule, the server is restarted now and then: each
// slot ticks once, and while the server is up none is missing.
func TestHoursOfHeartbeats(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir, workspace := t.TempDir(), t.TempDir()
	write(t, workspace, "look")
	bustest.Bubble(t, func(t *testing.T) {
		var last time.Time
		count := 0
		for up := range uptimes {
			s, err := bus.StartServer(bus.ServerConfig{Dir: dir, NoSync: true, Log: bustest.Log(t)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 4)
			var buses []*bus.Bus
			connect := func() *bus.Bus {
				b, err := bus.Connect(ctx, s.Connect(bus.Config{Log: bustest.Log(t)}))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.Provision(ctx, false); err != nil {
					t.Fatal(err)
				}
				buses = append(buses, b)
				return b
			}
			for range 3 {
				b := connect()
				go func() {
					done <- heartbeat.Run(ctx, b, heartbeat.Config{Workspace: workspace, Tool: "x", Poll: 7 * time.Minute, Log: bustest.Log(t)})
				}()
			}
			b := connect()
			first := true
			go func() {
				done <- b.Consume(ctx, b.TickConsumer(), bus.ConsumeConfig{Slots: 1}, func(_ context.Context, d *bus.Delivery) error {
					slot, ok := d.Slot()
					gap := slot.Sub(last)
					switch {
					case !ok || !slot.After(last):
						t.Errorf("uptime %d: slot %s after %s", up, slot, last)
					case first && up > 0 && gap > 90*time.Minute, (!first || up == 0) && !last.IsZero() && gap != 30*time.Minute:
						t.Errorf("uptime %d: slot %s is %s after the one before", up, slot, gap)
					}
					last, first = slot, false
					count++
					return nil
				})
			}()
			time.Sleep(uptime)
			cancel()
			for range 4 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			for _, b := range buses {
				b.Close()
			}
			s.Close()
			time.Sleep(50 * time.Minute) // an outage, with slots in it
		}
		if count < uptimes*12 || count > uptimes*14 {
			t.Errorf("%d ticks in %d times %s", count, uptimes, uptime)
		}
	})
}
