package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

func TestMain(m *testing.M) {
	ats.Register() // starts the server's clock outside of all bubbles
	code := slow.RunWaiting(m)
	ats.Unregister()
	os.Exit(code)
}

// outage is a channel that is down until a time.
type outage struct {
	until time.Time
	got   chan string
	tries int
}

func (o *outage) Send(_ context.Context, n channel.Notification) error {
	o.tries++
	if time.Now().Before(o.until) {
		return errors.New("is down")
	}
	o.got <- n.Text
	return nil
}

// A channel that is down for an hour (of virtual time) is retried in growing
// intervals. Then it gets its notifications in order within minutes. It delays no
// other channel.
func TestAnHourOfOutage(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		down := &outage{until: time.Now().Add(time.Hour), got: make(chan string, 100)}
		up := &outage{got: make(chan string, 100)}
		start(t, b, Config{Channels: map[string]channel.Channel{"down": down, "console": up}})

		const count = 20
		for i := range count {
			publish(t, b, b.NotifyAny("down"), fmt.Sprintf(`{"text":"%d"}`, i))
			sent := time.Now()
			publish(t, b, b.NotifyAny("console"), fmt.Sprintf(`{"text":"%d"}`, i))
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
			t.Errorf("delivered the last one %s after the outage", late)
		}
		if down.tries > 300 {
			t.Errorf("%d attempts in an hour", down.tries)
		}
	})
}

// If a notifier ends before it acknowledges a result, and the result is routed
// again an hour later, it is delivered once, although the outbox has forgotten
// the key.
func TestResultIsDeliveredOnceThoughRoutedAnHourLater(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		console := &outage{got: make(chan string, 100)}
		cfg := Config{Channels: map[string]channel.Channel{"console": console}}
		start(t, b, cfg)
		n, err := New(b, cfg)
		if err != nil {
			t.Fatal(err)
		}

		result := func(call string) *consume.Delivery {
			return &consume.Delivery{Subject: b.Report("s", call), Body: fmt.Appendf(nil, `{"for_user":%q}`, call), Published: time.Now()}
		}
		first := result("first")
		for _, d := range []*consume.Delivery{first, first, result("second")} {
			if err := n.route(t.Context(), d); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
		// Clients choose their ids, and may use one twice on purpose.
		for range 2 {
			publish(t, b, b.NotifyAny("console"), `{"id":"result.s.first","text":"a client's"}`)
		}
		for i, want := range []string{"first", "second", "a client's", "a client's"} {
			if got := <-console.got; got != want {
				t.Errorf("notification %d is %q, want %q", i, got, want)
			}
		}
	})
}
