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
	// heldSpace is what the headers and the subject of a message may need.
	heldSpace = 8 << 10
)

// hold puts a result whose store fails on the bus (task.Held), and reports whether the bus has it.
func (r *results) hold(ctx context.Context, a *attempt, res *tools.Result, cause error) bool {
	m, ok := task.Held(r.bus.Subjects, a.Delivered, res, r.bus.Conn().MaxPayload()-heldSpace)
	if !ok || a.resultPublished {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalPublishTimeout) // also for a worker that stops
	defer cancel()
	m.Timeout = finalPublishTimeout
	if _, err := r.bus.Publish(ctx, m); err != nil && !errors.Is(err, bus.ErrSubjectExists) { // that of an earlier attempt
		return false
	}
	r.log.Warn().Err(cause).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("the artifact store fails; the result waits on the bus")
	return true
}
