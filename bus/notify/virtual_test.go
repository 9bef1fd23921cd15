package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

func TestMain(m *testing.M) {
	ats.Register() // the server's clock, outside of all bubbles
	code := m.Run()
	ats.Unregister()
	os.Exit(code)
}

// outage is a channel that is down until a time.
type outage struct {
	until time.Time
	got   chan string
	tries int
}

func (o *outage) Send(_ context.Context, n Notification) error {
	o.tries++
	if time.Now().Before(o.until) {
		return errors.New("is down")
	}
	o.got <- n.Text
	return nil
}

// A channel that is down for an hour is asked in growing pauses, catches up in
// order within minutes, and delays nobody meanwhile. The time is virtual.
func TestAnHourOfOutage(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Provision(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		down := &outage{until: time.Now().Add(time.Hour), got: make(chan string, 100)}
		up := &outage{got: make(chan string, 100)}
		n, err := New(b, Config{Channels: map[string]Channel{"down": down, "console": up}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()

		const count = 20
		for i := range count {
			publish(t, b, b.Notify("down"), fmt.Sprintf(`{"text":"%d"}`, i))
			sent := time.Now()
			publish(t, b, b.Notify("console"), fmt.Sprintf(`{"text":"%d"}`, i))
			if <-up.got; time.Since(sent) > 15*time.Second {
				t.Errorf("the other channel waited %s", time.Since(sent))
			}
			time.Sleep(time.Minute)
		}
		for i := range count {
			if got := <-down.got; got != fmt.Sprint(i) {
				t.Errorf("notification %d is %q", i, got)
			}
		}
		if late := time.Since(down.until); late < 0 || late > 5*time.Minute {
			t.Errorf("caught up %s after the outage", late)
		}
		if down.tries > 300 {
			t.Errorf("%d attempts in an hour", down.tries)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A result that is routed again an hour later, because the notifier died before
// it had acknowledged it and no other was there, is told once. The outbox has
// forgotten it by then.
func TestResultIsToldOnceThoughRoutedAnHourLater(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true, Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Provision(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		console := &outage{got: make(chan string, 100)}
		n, err := New(b, Config{Channels: map[string]Channel{"console": console}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()

		result := func(call string) *bus.Delivery {
			return &bus.Delivery{Subject: b.Result("s", call), Body: fmt.Appendf(nil, `{"for_user":%q}`, call), Published: time.Now()}
		}
		first := result("first")
		for _, d := range []*bus.Delivery{first, first, result("second")} {
			if err := n.route(t.Context(), d); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
		// Clients choose their ids, and may mean the same one twice.
		for range 2 {
			publish(t, b, b.Notify("console"), `{"id":"result.s.first","text":"a client's"}`)
		}
		for i, want := range []string{"first", "second", "a client's", "a client's"} {
			if got := <-console.got; got != want {
				t.Errorf("notification %d is %q, want %q", i, got, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
