package agents

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// ErrRunning means that a run of the session has not ended.
var ErrRunning = tools.Errorf("conflict", "a run of the conversation has not ended; cancel it first")

// Remove deletes the log of a session, last, after those of its sub-agents. With force, it
// does so although a run has not ended, which then starts again. The error for a session without
// entries has the code tools.CodeNotFound.
func Remove(ctx context.Context, b *bus.Bus, id string, force bool) error {
	token, store := tools.TokenOf(id), session.New(b)
	bodies, last, err := store.Read(ctx, token, 0)
	if err != nil {
		return err
	}
	if len(bodies) == 0 {
		return tools.Errorf(tools.CodeNotFound, "session %q has no conversation", tools.Excerpt(id, 80))
	}
	entries, err := agent.DecodeEntries(bodies)
	if err != nil && !force {
		return err
	}
	if agent.IsOpen(entries) && !force {
		return ErrRunning
	}
	for _, child := range agent.SubagentSessions(entries) {
		if err := Remove(ctx, b, child, force); tools.CodeOf(err) != tools.CodeNotFound && err != nil {
			return err
		}
	}
	return store.Remove(ctx, token, last)
}
