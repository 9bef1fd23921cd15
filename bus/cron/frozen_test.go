package cron_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
)

// frozen connects a process that stands still before it sends a certain request, until thaw is closed.
type frozen struct {
	nats.InProcessConnProvider
	before       atomic.Pointer[string]
	others       atomic.Int64 // such requests that come first
	stands, thaw chan struct{}
}

type frozenConn struct {
	net.Conn
	*frozen
}

func (f *frozen) InProcessConn() (net.Conn, error) {
	conn, err := f.InProcessConnProvider.InProcessConn()
	return frozenConn{conn, f}, err
}

func (c frozenConn) Write(p []byte) (int, error) {
	if before := c.before.Load(); before != nil && bytes.Contains(p, []byte(*before)) && c.others.Add(-1) < 0 {
		c.before.Store(nil)
		close(c.stands)
		<-c.thaw
	}
	return c.Conn.Write(p)
}

// besideFrozen returns two connections to a server, of which the other one is that of the frozen process.
func besideFrozen(t *testing.T) (b, other *bus.Bus, process *frozen) {
	t.Helper()
	s := bustest.Server(t)
	b = bustest.Connect(t, s, bus.Config{})
	cfg := s.ClientConfig(bus.Config{})
	process = &frozen{InProcessConnProvider: cfg.InProcess, stands: make(chan struct{}), thaw: make(chan struct{})}
	cfg.InProcess = process
	other, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return b, other, process
}

// A process stands still while it disables or removes a job, and somebody enables it or adds it again meanwhile. The
// tick of that job stays.
func TestTickOfAJobThatCameBack(t *testing.T) {
	for _, test := range []struct {
		action, before string
		others         int64
		back           []string // actions
	}{
		{cron.ActionDisable, "STREAM.PURGE", 0, []string{cron.ActionUpdate, cron.ActionEnable}},
		{cron.ActionDisable, "STREAM.INFO", 1, []string{cron.ActionUpdate, cron.ActionEnable}},
		{cron.ActionRemove, `"filter":"stevedore.tick`, 0, []string{cron.ActionAdd}},
	} {
		t.Run(test.action+" "+test.before, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b, other, process := besideFrozen(t)
				do := func(b *bus.Bus, action, at string) error {
					r := cron.Request{Action: action, Name: "job"}
					if action == cron.ActionAdd || action == cron.ActionUpdate {
						r.Tool, r.At = "x", at
					}
					_, err := cron.New(b).Do(t.Context(), operator, "", r)
					return err
				}
				if err := do(other, cron.ActionAdd, "1h"); err != nil {
					t.Fatal(err)
				}
				process.others.Store(test.others)
				process.before.Store(&test.before)
				done := make(chan error, 1)
				go func() { done <- do(other, test.action, "") }()
				<-process.stands
				for _, action := range test.back {
					if err := do(b, action, "1s"); err != nil {
						t.Fatal(err)
					}
				}
				waits := func() bool {
					t.Helper()
					tick, err := b.Last(t.Context(), bus.Ticks, b.Tick(bus.Cron, "job"))
					if err != nil {
						t.Fatal(err)
					}
					return tick.Sequence > 0
				}
				time.Sleep(2 * time.Second)
				if !waits() {
					t.Fatal("no tick")
				}
				close(process.thaw)
				if err := <-done; err != nil {
					t.Error(err)
				}
				if !waits() {
					t.Error("the tick is gone")
				}
			})
		})
	}
}

// A process stands still while it removes a job, which somebody adds again meanwhile. That job stays, and the tick of the one before is
// removed.
func TestJobThatIsAddedAgainWhileItIsRemoved(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b, other, process := besideFrozen(t)
		before := "STREAM.INFO"
		jobs, job := cron.New(b), cron.Job{Name: "job", Every: time.Hour, Tool: "x"}
		if _, err := jobs.Add(t.Context(), operator, job); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Minute)
		tick, err := b.Last(t.Context(), bus.Ticks, b.Tick(bus.Cron, "job"))
		if err != nil || tick.Sequence == 0 {
			t.Fatal(tick, err)
		}
		process.others.Store(2) // which look for a tick that is due
		process.before.Store(&before)
		done := make(chan error, 1)
		go func() { done <- cron.New(other).Remove(t.Context(), operator, "job") }()
		<-process.stands
		time.Sleep(2 * time.Second)
		if _, err := jobs.Add(t.Context(), operator, job); err != nil {
			t.Error(err)
		}
		close(process.thaw)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := jobs.Get(t.Context(), operator, "job"); err != nil {
			t.Errorf("the job that was added later: %v", err)
		}
		if tick, err = b.Last(t.Context(), bus.Ticks, b.Tick(bus.Cron, "job")); err != nil || tick.Sequence > 0 {
			t.Errorf("the job that was removed has the tick %d, %v", tick.Sequence, err)
		}
	})
}

// A process stands still before it publishes the tick of a job that the clocks skipped. The job that was removed or disabled
// meanwhile does not run.
func TestMadeUpTickOfARemovedJob(t *testing.T) {
	for _, action := range []string{cron.ActionRemove, cron.ActionDisable} {
		t.Run(action, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b, other, process := besideFrozen(t)
				jobs, text := cron.New(b), func(text string) json.RawMessage { return json.RawMessage(`{"text":"` + text + `"}`) }
				job := cron.Job{Name: "night", Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Tool: "say", Args: text("night")}
				if _, err := jobs.Add(t.Context(), operator, job); err != nil {
					t.Fatal(err)
				}
				calls, before := runSay(t, b), "HPUB "+b.Tick(bus.Cron, "night")
				process.before.Store(&before)
				done := make(chan error, 1)
				go func() { done <- cron.New(other).RunSkipped(t.Context(), forward.Add(time.Minute)) }()
				<-process.stands
				if _, err := jobs.Do(t.Context(), operator, "", cron.Request{Action: action, Name: "night"}); err != nil {
					t.Fatal(err)
				}
				close(process.thaw)
				if err := <-done; err != nil {
					t.Error(err)
				}
				if _, err := jobs.Add(t.Context(), operator, cron.Job{Name: "later", At: time.Now().Add(time.Minute), Tool: "say", Args: text("later")}); err != nil {
					t.Fatal(err)
				}
				if call := nextCall(t, calls); string(call.Args) != `{"text":"later"}` {
					t.Errorf("call %+v", call)
				}
			})
		})
	}
}

// A caller that removes a job stops before it has removed the tick that waits. For the next caller, there is no such job, and it
// does not run.
func TestTickOfAHalfRemovedJob(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b, other, process := besideFrozen(t)
		jobs, text := cron.New(b), func(text string) json.RawMessage { return json.RawMessage(`{"text":"` + text + `"}`) }
		if _, err := jobs.Add(t.Context(), operator, cron.Job{Name: "often", Every: time.Minute, Tool: "say", Args: text("often")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		before := "STREAM.INFO" // the third one: the schedule is removed by then
		process.others.Store(2)
		process.before.Store(&before)
		failed := make(chan error, 1)
		go func() { failed <- cron.New(other).Remove(ctx, operator, "often") }()
		<-process.stands
		cancel()
		close(process.thaw)
		if err := <-failed; err == nil {
			t.Fatal("the job was removed whole")
		}
		if err := jobs.Remove(t.Context(), operator, "often"); !errors.Is(err, cron.ErrNotFound) {
			t.Fatal(err)
		}
		if tick, err := b.Last(t.Context(), bus.Ticks, b.Tick(bus.Cron, "often")); err != nil || tick.Sequence == 0 {
			t.Fatalf("the tick does not wait: %+v, %v", tick, err)
		}
		calls := runSay(t, b)
		if _, err := jobs.Add(t.Context(), operator, cron.Job{Name: "later", At: time.Now().Add(time.Minute), Tool: "say", Args: text("later")}); err != nil {
			t.Fatal(err)
		}
		if call := nextCall(t, calls); string(call.Args) != `{"text":"later"}` {
			t.Errorf("call %+v", call)
		}
	})
}
