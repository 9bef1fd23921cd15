package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// finalPublishTimeout is how long a worker that stops may take to publish the result of a once-only
// call that it interrupted.
const finalPublishTimeout = 5 * time.Second

// interrupted ends an attempt whose tool returned after the grace period. Another worker
// runs the call again, or not if it is once-only: then this worker, which has the claim,
// knows that no one else will, and publishes what the tool returned, or that the outcome is
// unknown.
func (w *Worker) interrupted(ctx context.Context, a *attempt, res *tools.Result) error {
	if !a.once() || res.Async {
		_ = res.Close()
		return ctx.Err()
	}
	stopped := ctx.Err()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalPublishTimeout)
	defer cancel()
	if res.IsError {
		_ = res.Close()
		res = unknownOutcome(a.call.Tool, "")
	}
	if err := w.offloadAndPublish(ctx, a, res); err != nil {
		w.log.Warn().Err(err).Str("call", a.key.id).Str("session", a.key.session).Msg("cannot publish the result of an interrupted call; another worker will")
		return stopped
	}
	return nil
}

// handOn is the verdict that returns a call so that another worker gets it. It is not a
// failed attempt.
func handOn(delay time.Duration) error { return bus.RetryAfter(delay, nil) }

// isHandedOn reports whether a verdict is that of handOn.
func isHandedOn(verdict error) bool {
	_, postponed := bus.Postponed(verdict)
	return postponed && errors.Unwrap(verdict) == nil
}
