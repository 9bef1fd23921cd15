package worker

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// abandon ends what a dead letter leaves open. A job that was started in the
// background was promised a completion, and nobody else will write it; the call
// of a schedule has nobody who waits, and keeps the next one from running. Any
// other call has its dead letter, and no result, so that it can be retried.
func (w *Worker) abandon(ctx context.Context, d *bus.Delivery, why error) error {
	j, err := w.decode(d)
	if err != nil || j.raw != nil {
		return nil // it names nobody
	}
	prior, answered, err := w.prior(ctx, j.key)
	if err != nil {
		return err
	}
	switch {
	case answered && prior.Outcome == tools.Async && !j.completedElsewhere(w.registry) && j.sameAs(prior.Digest) == nil:
		j.resultOut = true
	case !answered && (j.call.Action == bus.Heartbeat || j.call.Action == bus.Cron):
	default:
		return nil
	}
	res := tools.Failure(tools.Errorf(tools.CodeToolFailed, "it was given up on: %v", why))
	if j.once() {
		_, claimed, err := w.readClaim(ctx, j.key)
		if err != nil {
			return err
		}
		if claimed {
			res = unknownOutcome(j.call.Tool)
		}
	}
	return w.answer(ctx, j, res)
}
