// Package bustest gives tests a real bus: a NATS server in this process, with
// its data in the test's temporary directory.
package bustest

import (
	"encoding/json"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
)

// Server starts an embedded server without a socket that is stopped with the
// test.
func Server(t testing.TB) *bus.Server {
	t.Helper()
	s, err := bus.StartServer(bus.ServerConfig{Dir: t.TempDir(), NoSync: true, Log: Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Connect connects to s and provisions the topology.
func Connect(t testing.TB, s *bus.Server, cfg bus.Config) *bus.Bus {
	t.Helper()
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	b, err := bus.Connect(t.Context(), s.Connect(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return b
}

// New is Server and Connect.
func New(t testing.TB) *bus.Bus {
	t.Helper()
	return Connect(t, Server(t), bus.Config{Log: Log(t)})
}

// Log writes warnings and errors to the test's log.
func Log(t testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
}

// Subscribe collects what is published on a subject from now on.
func Subscribe(t testing.TB, b *bus.Bus, subject string) *nats.Subscription {
	t.Helper()
	sub, err := b.Conn().SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

// Next decodes the next message of a subscription.
func Next[T any](t testing.TB, sub *nats.Subscription) (T, *nats.Msg) {
	t.Helper()
	var v T
	msg, err := sub.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatalf("nothing came on %s: %v", sub.Subject, err)
	}
	if err := json.Unmarshal(msg.Data, &v); err != nil {
		t.Fatalf("message on %s: %v\n%s", msg.Subject, err, msg.Data)
	}
	return v, msg
}

// Bubble is synctest.Test for code that uses nats.go, which keeps timers in a
// pool: one that crosses the border of a bubble ends the process. Two
// collections empty the pool.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	for range 2 {
		runtime.GC()
	}
	synctest.Test(t, f)
	for range 2 {
		runtime.GC()
	}
}
