package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// run runs the attempt's tool within the call's deadline, or takes the raw result. It
// always returns a result.
func (w *Worker) run(ctx context.Context, a *attempt) *tools.Result {
	if a.raw != nil {
		return w.rawResult(ctx, a)
	}
	if cause := endCause(ctx, a); cause != nil {
		return tools.Failure(cause)
	}
	var callback tools.AsyncCallback
	if w.registry.CallsBack(a.call.Tool) {
		a.completion = make(chan *tools.Result, 1)
		callback = func(_ context.Context, res *tools.Result) { a.completion <- res } // the registry calls it at most once
	}
	call, err := w.withArtifacts(ctx, a)
	if err != nil {
		return withCause(ctx, a, tools.Failure(err))
	}
	return withCause(ctx, a, w.registry.Run(ctx, call, callback))
}

// rawResult returns the result of a tool that another program ran.
func (w *Worker) rawResult(ctx context.Context, a *attempt) (res *tools.Result) {
	err := w.withStoreRetry(ctx, func() (err error) {
		res, err = w.offloader.Raw(ctx, *a.raw)
		return err
	})
	if err != nil {
		return tools.Failure(err)
	}
	return res
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
		return tools.Errorf(tools.CodeTimeout, "the deadline of the call (%s) has passed", a.call.Deadline.UTC().Format(time.RFC3339))
	}
	return nil
}
