package client

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// The nats CLI does not find the embedded server by itself, so advice that names its commands says how it does.
func TestAdviceForTheNATSCommand(t *testing.T) {
	for _, code := range []string{status.ConsumerPaused, status.RecordDamaged, status.ChannelWithoutWorker, status.DeadLetters} {
		for server, want := range map[string]bool{"": code != status.DeadLetters, "nats://example:4222": false} {
			p := []status.Problem{{Code: code, Name: "A b"}}
			Advise(p, &cli.Connection{Data: "d", Config: bus.Config{Server: server}})
			if strings.Contains(p[0].Advice, `eval "$(stevedore up --print-env --data d)"`) != want {
				t.Errorf("%s with %q: %s", code, server, p[0].Advice)
			}
		}
	}
}
