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
func (w *Worker) handleAsync(ctx, toolCtx context.Context, j *job, res *tools.Result) error {
	if !j.resultPublished {
		if err := w.offloadAndPublish(ctx, j, res); err != nil {
			return err
		}
	}
	if j.completesElsewhere(w.registry) {
		return nil
	}
	if j.lostRace { // a completion would contradict the final result
		w.discardCompletion(j)
		return nil
	}
	return w.awaitCompletion(ctx, toolCtx, j)
}

// awaitCompletion waits for the async tool and publishes its completion. Waiting
// uses no slot. The worker keeps extending the lease, so the call is redelivered if
// the worker dies. toolCtx is the tool's context, ctx the worker's.
func (w *Worker) awaitCompletion(ctx, toolCtx context.Context, j *job) error {
	j.resultPublished = true
	j.delivery.Detach()
	select {
	case res := <-j.completion:
		return w.offloadAndPublish(ctx, j, withCause(toolCtx, j, res))
	case <-toolCtx.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case res := <-j.completion:
		return w.offloadAndPublish(ctx, j, withCause(toolCtx, j, res))
	case <-time.After(completionGrace):
		return w.offloadAndPublish(ctx, j, tools.Failure(endCause(toolCtx, j)))
	}
}

// discardCompletion stops an async tool whose completion must not be published,
// and gives it completionGrace to release its resources.
func (w *Worker) discardCompletion(j *job) {
	j.exec.cancel(errCancelled)
	j.delivery.Detach()
	select {
	case res := <-j.completion:
		_ = res.Close()
	case <-time.After(completionGrace):
	}
}
