package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools"
)

// run runs the attempt's tool within the call's deadline, or takes the raw result. It
// always returns a result.
func (w *Worker) run(ctx context.Context, a *attempt) *tools.Result {
	if a.Raw != nil {
		res, err := w.artifacts.Raw(ctx, a.Delivered)
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
	call, err := w.artifacts.Expand(ctx, a.Delivered)
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

// interruptedPause is the pause before a call runs again whose tool lost its connection.
const interruptedPause = time.Second

// returned decides what follows from what a tool returned: a result to store, or a verdict if the
// call goes on later.
func (w *Worker) returned(ctx, toolCtx context.Context, a *attempt, res *tools.Result) (*tools.Result, error) {
	failed := func(with error) bool { return res.IsError && errors.Is(res.Err, with) }
	switch pause, paused := a.pauseOf(toolCtx, res); {
	case ctx.Err() != nil: // the worker is stopping
		return nil, w.interrupted(ctx, a, res)
	case paused:
		return w.parking.pause(ctx, a, pause)
	case failed(tools.ErrTakenOver) && !a.Once():
		return nil, handOn(0)
	case failed(tools.ErrInterrupted) && toolCtx.Err() == nil && !a.Once():
		return nil, handOn(interruptedPause)
	case failed(tools.ErrInterrupted) && toolCtx.Err() == nil:
		return unknownOutcome(a.Call.Tool, ""), nil
	}
	return res, nil
}

// unknownOutcome is the result of a once-only call whose worker stopped while it
// ran the tool. The result ends with hint.
func unknownOutcome(tool, hint string) *tools.Result {
	text := fmt.Sprintf("The outcome of this call is unknown: the worker stopped while it ran %s. "+
		"The tool may have done all, a part or none of its work. It was not run again. Check its effects before you repeat the call.%s", tool, hint)
	res := tools.Failure(tools.Errorf(tools.CodeUnknownOutcome, "%s", text))
	res.ForUser = text
	return res
}

// finalPublishTimeout is how long a worker that stops may take to publish the result of a once-only
// call that it interrupted.
const finalPublishTimeout = 5 * time.Second

// interrupted ends an attempt whose tool returned after the grace period. Another worker
// runs the call again, or not if it is once-only: then this worker, which has the claim,
// knows that no one else will, and publishes what the tool returned, or that the outcome is
// unknown.
func (w *Worker) interrupted(ctx context.Context, a *attempt, res *tools.Result) error {
	stopped := ctx.Err()
	if !a.Once() || res.Async {
		_ = res.Close()
		return stopped
	}
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
	return errDone
}

// handOn is the verdict that returns a call so that another worker gets it. It is not a
// failed attempt.
func handOn(delay time.Duration) error { return consume.RetryAfter(delay, nil) }

// isHandedOn reports whether a verdict is that of handOn.
func isHandedOn(verdict error) bool {
	_, postponed := consume.Postponed(verdict)
	return postponed && errors.Unwrap(verdict) == nil
}

// completionGrace is how long a cancelled async tool may take to return a
// completion of its own, with what it did so far.
const completionGrace = 2 * time.Second

// toCompletion stores the result "async" of a tool that continues in the background, waits for the
// tool and returns its completion. After a restart the result is already published. Waiting uses
// no slot. The worker keeps extending the lease, so the call is redelivered if the worker dies.
// toolCtx is the tool's context, ctx the worker's.
func (w *Worker) toCompletion(ctx, toolCtx context.Context, a *attempt, res *tools.Result) (*tools.Result, error) {
	if !a.resultPublished {
		if err := w.results.store(ctx, a, res); err != nil {
			return nil, err
		}
	}
	if a.CompletesElsewhere() {
		return nil, errDone
	}
	a.Detach()
	if a.lostRace { // a completion would contradict the final result
		a.exec.cancel(errCancelled)
		if res := a.awaitCompletion(); res != nil {
			_ = res.Close()
		}
		return nil, errDone
	}
	a.resultPublished = true
	select {
	case res = <-a.completion:
	case <-toolCtx.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if res = a.awaitCompletion(); res == nil {
			res = tools.Failure(endCause(toolCtx, a))
		}
	}
	if pause, ok := a.pauseOf(toolCtx, res); ok {
		return w.parking.pause(ctx, a, pause)
	}
	return withCause(toolCtx, a, res), nil
}

// awaitCompletion returns the completion of an async tool whose context has ended, or nil if the
// tool returns none soon.
func (a *attempt) awaitCompletion() *tools.Result {
	select {
	case res := <-a.completion:
		return res
	case <-time.After(completionGrace):
		return nil
	}
}

// pauseOf returns the pause that the tool asks for with its result. A once-only tool gets none.
// A call that was cancelled or has no time left gets one only if it made the calls that it
// waits for: Park then cancels them.
func (a *attempt) pauseOf(toolCtx context.Context, res *tools.Result) (*tools.Pause, bool) {
	pause, ok := tools.PauseOf(res.Err)
	return pause, ok && res.IsError && !a.Once() && (toolCtx.Err() == nil || pause.Made)
}
