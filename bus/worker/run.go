package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// run executes the job's tool within the call's deadline, or takes the raw
// result. There is always a result.
func (w *Worker) run(ctx context.Context, j *job) *tools.Result {
	if j.raw != nil {
		return w.takeRaw(ctx, j)
	}
	if why := whyEnded(ctx, j); why != nil {
		return tools.Failure(why)
	}
	var callback tools.AsyncCallback
	if w.registry.CallsBack(j.call.Tool) {
		j.completion = make(chan *tools.Result, 1)
		callback = func(_ context.Context, res *tools.Result) { j.completion <- res } // once at most
	}
	return explained(ctx, j, w.registry.Run(ctx, j.call, callback))
}

// takeRaw returns the result that came instead of a call.
func (w *Worker) takeRaw(ctx context.Context, j *job) (res *tools.Result) {
	err := w.store(ctx, func() (err error) {
		res, err = w.offloader.Raw(ctx, *j.raw)
		return err
	})
	if err != nil {
		return tools.Failure(err)
	}
	return res
}

// lastWords is how long an async job that was told to stop has for a completion
// of its own, with what it did until then.
const lastWords = 2 * time.Second

// awaitCompletion waits for the job that the tool started and publishes its
// completion. Waiting costs no slot; the lease is kept, so that the death of
// this worker is noticed. toolCtx is the job's, ctx the worker's.
func (w *Worker) awaitCompletion(ctx, toolCtx context.Context, j *job) error {
	j.resultOut = true
	j.delivery.Detach()
	select {
	case res := <-j.completion:
		return w.answer(ctx, j, explained(toolCtx, j, res))
	case <-toolCtx.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case res := <-j.completion:
		return w.answer(ctx, j, explained(toolCtx, j, res))
	case <-time.After(lastWords):
		return w.answer(ctx, j, tools.Failure(whyEnded(toolCtx, j)))
	}
}

// stopJob ends a job whose completion nobody is to see, and gives it the time for
// last words to let go of what it holds.
func (w *Worker) stopJob(j *job) {
	j.hand.cancel(errCancelled)
	j.delivery.Detach()
	select {
	case res := <-j.completion:
		_ = res.Close()
	case <-time.After(lastWords):
	}
}

// explained gives an error result the reason that the tool could not know.
func explained(ctx context.Context, j *job, res *tools.Result) *tools.Result {
	why := whyEnded(ctx, j)
	switch {
	case why == nil || !res.IsError:
	case res.Err == context.DeadlineExceeded || res.Err == context.Canceled: // Go's words, and no more
		if res.ForLLM == res.Err.Error() {
			res.ForLLM = why.Error()
		}
		res.Err = why
	case tools.CodeOf(res.Err) != tools.CodeOf(why):
		res.Err = errors.Join(why, res.Err)
	}
	return res
}

// whyEnded returns why the call should not go on, or nil.
func whyEnded(ctx context.Context, j *job) error {
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		return tools.Errorf(tools.CodeCancelled, "the call was cancelled")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &tools.Error{Code: tools.CodeTimeout, Message: fmt.Sprintf("the deadline of the call, %s, passed", j.call.Deadline.UTC().Format(time.RFC3339))}
	}
	return nil
}
