package cli_test

import (
	"strings"
	"testing"

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
