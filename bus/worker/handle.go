package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// handle does steps 3 to 9 of a call. A nil error acknowledges the call.
func (w *Worker) handle(ctx context.Context, d *bus.Delivery) error {
	// 3. Decode. A call that cannot be decoded becomes a dead letter; an invalid
	// call gets an error result.
	w.step("decode")
	a, err := w.decode(d)
	if err != nil {
		return bus.Reject(bus.CodeUndecodable, err)
	}
	a.countWait()
	ctx, span := w.startSpan(ctx, a)
	err = w.handleAttempt(ctx, a)
	endSpan(span, a, err)
	if err != nil {
		w.recordFailure(ctx, a, err)
	}
	return err
}

// handleAttempt does steps 4 to 9 of a call.
func (w *Worker) handleAttempt(ctx context.Context, a *attempt) error {
	if a.Invalid != nil {
		return w.results.store(ctx, a, tools.Failure(a.Invalid))
	}
	if err := w.artifacts.readArgs(ctx, a.Delivered); err != nil {
		return err
	}
	if verdict := w.handOnUnknown(ctx, a); verdict != nil {
		return verdict
	}

	// 4. Resume. The call may be parked, have a result, be running, or be a once-only
	// call that was started. It may need an approval.
	w.step("resume")
	if ended, err := w.resume(ctx, a, false); ended || err != nil {
		return err
	}
	if ended, err := w.approve(ctx, a); ended || err != nil {
		return err
	}

	// 5. Claim. From here on, only this worker runs the call. The claim of a
	// once-only call is permanent.
	w.step("claim")
	toolCtx, ended, err := w.claim(ctx, a)
	defer w.executions.end(a)
	if ended || err != nil {
		return err
	}
	if a.Redelivered && !a.Once() { // the claim of a once-only call ends its attempts
		w.recordStart(ctx, a)
	}

	// 6. Run. After a crash in this step the tool runs again, unless it is
	// once-only.
	w.step("run")
	waitRecorded := w.recordLastChannel(ctx, a)
	res := w.run(toolCtx, a)
	a.exec.flushProgress() // before the result
	waitRecorded()
	return w.finish(ctx, toolCtx, a, res)
}

// interruptedPause is the pause before a call runs again whose tool lost its connection.
const interruptedPause = time.Second

// finish does steps 7 to 9 of a call whose tool has returned, unless the call continues later.
func (w *Worker) finish(ctx, toolCtx context.Context, a *attempt, res *tools.Result) error {
	failed := func(with error) bool { return res.IsError && errors.Is(res.Err, with) }
	switch pause, paused := a.pauseOf(toolCtx, res); {
	case ctx.Err() != nil: // the worker is stopping
		return w.interrupted(ctx, a, res)
	case paused:
		return w.parking.pause(ctx, a, pause)
	case failed(tools.ErrTakenOver) && !a.Once():
		return handOn(0)
	case failed(tools.ErrInterrupted) && toolCtx.Err() == nil && !a.Once():
		return handOn(interruptedPause)
	case failed(tools.ErrInterrupted) && toolCtx.Err() == nil:
		res = unknownOutcome(a.Call.Tool, "")
	case res.Async && !res.IsError:
		return w.handleAsync(ctx, toolCtx, a, res)
	}
	return w.results.store(ctx, a, res)
}
