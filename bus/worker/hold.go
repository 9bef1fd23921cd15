package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// holdAfter is how long the store may fail before a result is put on the bus.
	holdAfter = time.Second
	// holdTimeout is how long the bus may take to store the text of a result.
	holdTimeout = time.Minute
	// heldSpace is what the headers and the subject of a message may need.
	heldSpace = 8 << 10
)

// hold puts a result whose store fails on the bus (task.Held), and reports whether the bus has it.
func (r *results) hold(ctx context.Context, a *attempt, res *tools.Result, cause error) bool {
	if a.resultPublished {
		return false
	}
	limit := holdTimeout
	if ctx.Err() != nil { // the worker stops
		limit = finalPublishTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	m, ok := task.Held(ctx, r.bus, a.Delivered, res, r.bus.Conn().MaxPayload()-heldSpace)
	if !ok {
		return false
	}
	m.Timeout = finalPublishTimeout
	if _, err := r.bus.Publish(ctx, m); err != nil && !errors.Is(err, bus.ErrSubjectExists) { // that of an earlier attempt
		return false
	}
	r.log.Warn().Err(cause).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("the artifact store fails; the result waits on the bus")
	return true
}

// removeHeld removes the text of a held result that is stored now.
func (r *results) removeHeld(ctx context.Context, a *attempt) {
	if !a.HeldApart() {
		return
	}
	if err := a.RemoveHeld(ctx, r.bus); err != nil {
		r.log.Warn().Err(err).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("cannot remove the text of a held result from the bus")
	}
}
