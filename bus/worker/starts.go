package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
)

// A worker that dies may have held calls that it had not started. So deliveries are not
// attempts: an attempt is a start that a worker recorded. The first delivery is not
// recorded, so that a call that succeeds immediately costs nothing.

// startTimeout is how long a worker tries to record a start before it runs the call
// without the record.
const startTimeout = 30 * time.Second

// maxUnstarted multiplies MaxAttempts: a call that was delivered more often is given up
// even if no start is recorded, because it may kill its workers before they record it.
const maxUnstarted = 100

// countAttempts returns the number of attempts of the call, with this one. The first
// delivery counts as one, but does not suffice for a dead letter.
func (w *Worker) countAttempts(ctx context.Context, a *attempt) (int, error) {
	delivered := a.delivery.Attempt
	if !a.delivery.Redelivered || delivered > maxUnstarted*w.cfg.MaxAttempts {
		return delivered, nil
	}
	starts, err := task.Starts(ctx, w.bus, a.key.session, a.key.id)
	counted := slices.DeleteFunc(slices.Clone(starts), task.IsStopped)
	first := 1 // the first delivery
	if len(counted) < len(starts) {
		first = 0
	}
	if len(counted) == 0 {
		return min(delivered, 1+first, w.cfg.MaxAttempts), err
	}
	return min(delivered, len(counted)+1+first), err
}

// recordStart records the start of a call that was delivered before. If it cannot, the
// call runs without the record.
func (w *Worker) recordStart(ctx context.Context, a *attempt) {
	err := w.retry(ctx, "cannot record the start of a call", startTimeout, func(err error) bool {
		return errors.Is(err, nats.ErrConnectionClosed)
	}, func() (err error) {
		a.start, err = task.RecordStart(ctx, w.bus, a.key.session, a.key.id)
		return err
	})
	if err != nil {
		w.log.Warn().Err(err).Str("call", a.key.id).Str("session", a.key.session).Msg("cannot record the start of a call; this attempt does not count")
	}
}

// recordFailure records an attempt that failed before the start. If the stop of the
// worker ended the attempt, it does not count.
func (w *Worker) recordFailure(ctx context.Context, a *attempt, verdict error) {
	_, rejected := bus.Rejected(verdict)
	switch {
	case ctx.Err() != nil && (a.start != "" || !a.delivery.Redelivered):
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		var err error
		if a.start != "" {
			err = task.ForgetStart(ctx, w.bus, a.start)
		} else {
			err = task.RecordStopped(ctx, w.bus, a.key.session, a.key.id)
		}
		if err != nil {
			w.log.Warn().Err(err).Str("call", a.key.id).Str("session", a.key.session).Msg("an interrupted attempt counts")
		}
	case ctx.Err() == nil && a.start == "" && a.delivery.Redelivered && !rejected && !isHandedOn(verdict):
		w.recordStart(ctx, a)
	}
}
