package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// completionGrace is how long a cancelled async tool may take to return a
// completion of its own, with what it did so far.
const completionGrace = 2 * time.Second

// handleAsync does steps 7 to 9 for a tool that continues in the background: it
// publishes the result "async", waits for the tool and publishes the completion.
// After a restart the result is already published.
func (w *Worker) handleAsync(ctx, toolCtx context.Context, a *attempt, res *tools.Result) error {
	if !a.resultPublished {
		if err := w.offloadAndPublish(ctx, a, res); err != nil {
			return err
		}
	}
	if a.completesElsewhere(w.registry) {
		return nil
	}
	if a.lostRace { // a completion would contradict the final result
		w.discardCompletion(a)
		return nil
	}
	return w.awaitCompletion(ctx, toolCtx, a)
}

// awaitCompletion waits for the async tool and publishes its completion. Waiting
// uses no slot. The worker keeps extending the lease, so the call is redelivered if
// the worker dies. toolCtx is the tool's context, ctx the worker's.
func (w *Worker) awaitCompletion(ctx, toolCtx context.Context, a *attempt) error {
	a.resultPublished = true
	a.delivery.Detach()
	select {
	case res := <-a.completion:
		if pause, ok := tools.PauseOf(res.Err); ok && toolCtx.Err() == nil && !a.once() {
			return w.pause(ctx, a, pause)
		}
		return w.offloadAndPublish(ctx, a, withCause(toolCtx, a, res))
	case <-toolCtx.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case res := <-a.completion:
		return w.offloadAndPublish(ctx, a, withCause(toolCtx, a, res))
	case <-time.After(completionGrace):
		return w.offloadAndPublish(ctx, a, tools.Failure(endCause(toolCtx, a)))
	}
}

// discardCompletion stops an async tool whose completion must not be published,
// and gives it completionGrace to release its resources.
func (w *Worker) discardCompletion(a *attempt) {
	a.exec.cancel(errCancelled)
	a.delivery.Detach()
	select {
	case res := <-a.completion:
		_ = res.Close()
	case <-time.After(completionGrace):
	}
}
