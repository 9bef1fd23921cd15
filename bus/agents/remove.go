package agents

import (
	"context"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// ErrRunning means that a run of the session has not ended.
var ErrRunning = tools.Errorf("conflict", "a run of the conversation has not ended; cancel it first")

// SessionRequest names a conversation.
type SessionRequest struct {
	Session string `json:"session"`
	// Force removes it although a run has not ended, which then starts again.
	Force bool `json:"force"`
	// Run is the run to trace; empty means the last one.
	Run string `json:"run"`
}

// remove deletes the log of a session, last, after those of its sub-agents. The error for a session without
// entries has the code tools.CodeNotFound.
func remove(ctx context.Context, b *bus.Bus, in SessionRequest) (none any, err error) {
	token, store := tools.TokenOf(in.Session), session.New(b)
	bodies, last, err := store.Read(ctx, token, 0)
	if err != nil {
		return nil, err
	}
	if len(bodies) == 0 {
		return nil, tools.Errorf(tools.CodeNotFound, "session %q has no conversation", tools.Excerpt(in.Session, 80))
	}
	entries, err := agent.DecodeEntries(bodies)
	if err != nil && !in.Force {
		return nil, fmt.Errorf("%w; force removes the conversation anyway", err)
	}
	if call, open := agent.OpenRun(token, entries); open && !in.Force {
		if ended, err := (busCaller{b}).endOf(ctx, call); err != nil {
			return nil, err
		} else if ended == "" {
			return nil, ErrRunning
		}
	}
	for _, child := range agent.SubagentSessions(entries) {
		in.Session = child
		if _, err := remove(ctx, b, in); tools.CodeOf(err) != tools.CodeNotFound && err != nil {
			return nil, err
		}
	}
	return nil, store.Remove(ctx, token, last)
}
