package client

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// ReadConversation reads the conversation of a session. It returns an error if there
// is none, for somebody who has the connection.
func ReadConversation(ctx context.Context, b *bus.Bus, c *cli.Connection, id string) ([]agent.Entry, error) {
	bodies, _, err := session.New(b).Read(ctx, tools.TokenOf(id), 0)
	if err != nil {
		return nil, err
	}
	if len(bodies) == 0 {
		return nil, cli.Exit(cli.ExitNotFound, "session %q has no conversation; see %s", id, c.Command("sessions", "ls"))
	}
	return agent.DecodeEntries(bodies)
}
