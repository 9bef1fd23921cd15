package heartbeat_test

import (
	"context"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The server restarts while three heartbeats run: none of them restarts the
// interval, and each due time has one tick.
func TestServerRestartsUnderHeartbeats(t *testing.T) {
	slow.Test(t) // the simulator restarts the server under ticks, too
	t.Parallel()
	dir, workspace := t.TempDir(), t.TempDir()
	write(t, workspace, "look")
	listen := bustest.FreeAddress(t)
	serve := func() *embedded.Server {
		return bustest.Start(t, embedded.Config{Dir: dir, NoSync: true, Listen: listen})
	}
	s := serve()
	config := bus.Config{Server: s.URL(), Log: bustest.Log(t)}
	connect := func() *bus.Bus {
		b, err := bus.Connect(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
			t.Fatal(err)
		}
		return b
	}
	for range 3 {
		start(t, connect(), heartbeat.Config{Workspace: workspace, Every: time.Second})
	}
	b := connect()
	dueTimes := make(chan time.Time, 100)
	bustest.Run(t, func(ctx context.Context) error {
		return consume.Run(ctx, b, b.TickConsumer(), consume.Config{Slots: 1}, func(_ context.Context, d *consume.Delivery) error {
			dueTime, _ := cron.DueTime(d)
			dueTimes <- dueTime
			return nil
		})
	})
	var last time.Time
	next := func() {
		t.Helper()
		select {
		case dueTime := <-dueTimes:
			if !dueTime.After(last) {
				t.Errorf("due time %s after %s", dueTime, last)
			}
			last = dueTime
		case <-time.After(bustest.Timeout):
			t.Fatal("no tick")
		}
	}
	next()
	before := waitForSchedule(t, b, "before", func(_ cron.Entry, ok bool) bool { return ok })
	s.Close()
	serve()
	next()
	next()
	if after := waitForSchedule(t, b, "after", func(_ cron.Entry, ok bool) bool { return ok }); !after.ChangedAt.Equal(before.ChangedAt) {
		t.Errorf("the schedule was written again: %s, and before %s", after.ChangedAt, before.ChangedAt)
	}
}
