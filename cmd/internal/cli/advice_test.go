package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

func TestAdviceOnTheLimitOfConsumers(t *testing.T) {
	b := bustest.Dial(t, bustest.Server(t), bus.Config{})
	if _, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: b.StreamName(bus.Calls), MaxConsumers: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Consumer(t.Context(), b.WorkerConsumer("first")); err != nil {
		t.Fatal(err)
	}
	_, err := b.Consumer(t.Context(), b.WorkerConsumer("second"))
	if advice := new(cli.Connection).Advice(err); !strings.Contains(advice, "max_consumers") {
		t.Errorf("%v: %q", err, advice)
	}
}

// A server of a data directory that does not greet is a process that hangs; another one may be no server.
func TestAdviceOnAServerThatDoesNotGreet(t *testing.T) {
	for server, want := range map[string]string{"": "kill -CONT", "nats://127.0.0.1:1": "--server"} {
		c := new(cli.Connection)
		c.Server = server
		if advice := c.Advice(bus.ErrNotNATS); !strings.Contains(advice, want) {
			t.Errorf("%q: %q", server, advice)
		}
	}
}

// A server without JetStream needs no other login.
func TestAdviceOnAServerWithoutJetStream(t *testing.T) {
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	_, err = bus.Connect(t.Context(), bus.Config{InProcess: srv, Log: bustest.Log(t)})
	if advice := new(cli.Connection).Advice(err); !strings.Contains(advice, "nats-server -js") {
		t.Errorf("%v: %q", err, advice)
	}
}

// A server whose max_payload was lowered ends the connection of a client that does not know it yet.
func TestAdviceOnALoweredMaxPayload(t *testing.T) {
	opts := &server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir()}
	srv, err := server.NewServer(opts.Clone())
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	b, err := bus.Connect(t.Context(), bus.Config{InProcess: srv, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	opts.MaxPayload = 100
	if err := srv.ReloadOptions(opts); err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().Publish("x", make([]byte, 200)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Closed():
	case <-time.After(20 * time.Second):
		t.Fatal("the connection is open")
	}
	if advice := new(cli.Connection).Advice(b.ClosedErr()); !strings.Contains(advice, "max_payload of the server was lowered") {
		t.Errorf("%v: %q", b.ClosedErr(), advice)
	}
}
