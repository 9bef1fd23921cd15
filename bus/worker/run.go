package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// run runs the attempt's tool within the call's deadline, or takes the raw result. It
// always returns a result.
func (w *Worker) run(ctx context.Context, a *attempt) *tools.Result {
	if a.Raw != nil {
		res, err := w.artifacts.Raw(ctx, *a.Raw)
		if err != nil {
			return tools.Failure(err)
		}
		return res
	}
	if cause := endCause(ctx, a); cause != nil {
		return tools.Failure(cause)
	}
	var callback tools.AsyncCallback
	if a.CallsBack {
		a.completion = make(chan *tools.Result, 1)
		callback = func(_ context.Context, res *tools.Result) { a.completion <- res } // the registry calls it at most once
	}
	call, err := w.artifacts.expand(ctx, a.Delivered)
	if err != nil {
		return withCause(ctx, a, tools.Failure(err))
	}
	return withCause(ctx, a, w.registry.Run(ctx, call, callback))
}

// withCause adds to an error result why the tool's context ended: the tool cannot
// tell a cancelled call or a passed deadline from another end of its context.
func withCause(ctx context.Context, a *attempt, res *tools.Result) *tools.Result {
	cause := endCause(ctx, a)
	switch {
	case cause == nil || !res.IsError:
	case res.Err == context.DeadlineExceeded || res.Err == context.Canceled: // the bare error adds nothing
		if res.ForLLM == res.Err.Error() {
			res.ForLLM = cause.Error()
		}
		res.Err = cause
	case tools.CodeOf(res.Err) != tools.CodeOf(cause):
		res.Err = errors.Join(cause, res.Err)
	}
	return res
}

// endCause returns the error of a call that was cancelled or whose deadline has
// passed, and otherwise nil.
func endCause(ctx context.Context, a *attempt) error {
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		return errCancelled
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return tools.Errorf(tools.CodeTimeout, "the deadline of the call (%s) has passed", a.Call.Deadline.UTC().Format(time.RFC3339))
	}
	return nil
}

// finalPublishTimeout is how long a worker that stops may take to publish the result of a once-only
// call that it interrupted.
const finalPublishTimeout = 5 * time.Second

// interrupted ends an attempt whose tool returned after the grace period. Another worker
// runs the call again, or not if it is once-only: then this worker, which has the claim,
// knows that no one else will, and publishes what the tool returned, or that the outcome is
// unknown.
func (w *Worker) interrupted(ctx context.Context, a *attempt, res *tools.Result) error {
	if !a.Once() || res.Async {
		_ = res.Close()
		return ctx.Err()
	}
	stopped := ctx.Err()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalPublishTimeout)
	defer cancel()
	if res.IsError {
		_ = res.Close()
		res = unknownOutcome(a.Call.Tool, "")
	}
	if err := w.results.store(ctx, a, res); err != nil {
		w.log.Warn().Err(err).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("cannot publish the result of an interrupted call; another worker will")
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

// completionGrace is how long a cancelled async tool may take to return a
// completion of its own, with what it did so far.
const completionGrace = 2 * time.Second

// handleAsync does steps 7 to 9 for a tool that continues in the background: it
// publishes the result "async", waits for the tool and publishes the completion.
// After a restart the result is already published.
func (w *Worker) handleAsync(ctx, toolCtx context.Context, a *attempt, res *tools.Result) error {
	if !a.resultPublished {
		if err := w.results.store(ctx, a, res); err != nil {
			return err
		}
	}
	if a.CompletesElsewhere() {
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
	a.Detach()
	var res *tools.Result
	select {
	case res = <-a.completion:
	case <-toolCtx.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case res = <-a.completion:
		case <-time.After(completionGrace):
			res = tools.Failure(endCause(toolCtx, a))
		}
	}
	if pause, ok := a.pauseOf(toolCtx, res); ok {
		return w.parking.pause(ctx, a, pause)
	}
	return w.results.store(ctx, a, withCause(toolCtx, a, res))
}

// discardCompletion stops an async tool whose completion must not be published,
// and gives it completionGrace to release its resources.
func (w *Worker) discardCompletion(a *attempt) {
	a.exec.cancel(errCancelled)
	a.Detach()
	select {
	case res := <-a.completion:
		_ = res.Close()
	case <-time.After(completionGrace):
	}
}
