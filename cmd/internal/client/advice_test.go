package client

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// The command for a full stream fits it: provision sets no sizes of buckets, and takes that of the schedules away.
func TestAdviceForAFullStream(t *testing.T) {
	for name, want := range map[string]string{
		"KV_stevedore_state": "nats stream edit KV_stevedore_state --max-bytes 8388608", bus.Ticks: "stevedore provision --update --data d",
		bus.Calls: "stevedore provision --update --max-bytes calls=8MiB --data d",
	} {
		p := []status.Problem{{Code: status.StreamNearlyFull, Name: name, MaxBytes: 4 << 20}}
		if Advise(p, &cli.Connection{Data: "d"}); !strings.Contains(p[0].Advice, want) {
			t.Errorf("%s: %s", name, p[0].Advice)
		}
	}
}

// Advice that names commands of the nats CLI says how to give it the login of the embedded server.
func TestAdviceForTheNATSCommand(t *testing.T) {
	for _, code := range []string{status.ConsumerPaused, status.RecordDamaged, status.DeadLetters} {
		for server, want := range map[string]bool{"": code != status.DeadLetters, "nats://example:4222": false} {
			p := []status.Problem{{Code: code, Name: "A b"}}
			Advise(p, &cli.Connection{Data: "d", Config: bus.Config{Server: server}})
			if strings.Contains(p[0].Advice, `eval "$(stevedore up --print-env --data d)"`) != want {
				t.Errorf("%s with %q: %s", code, server, p[0].Advice)
			}
		}
	}
}
