package worker

import (
	"context"
	"errors"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// attempt is one delivery of a call while this worker handles it.
type attempt struct {
	*task.Delivered

	// resultPublished is set if the result is stored; the next event is the
	// completion.
	resultPublished bool
	// lostRace is set if another delivery published a final result first.
	lostRace bool
	// completion receives the later result of an async tool.
	completion chan *tools.Result
	// exec is set while this worker runs the attempt.
	exec *execution
	// startCounted is set if the record of the call has this attempt.
	startCounted bool
	// approved is set if a person approved the call.
	approved bool
	// outcome and errorCode are of the last result that was published.
	outcome   tools.Outcome
	errorCode string
}

// handle does steps 3 to 9 of a call. A nil error acknowledges the call.
func (w *Worker) handle(ctx context.Context, d *consume.Delivery) error {
	// 3. Decode. A call that cannot be decoded becomes a dead letter; an invalid
	// call gets an error result.
	w.step("decode")
	a, err := w.decode(d)
	if err != nil {
		return consume.Reject(consume.CodeUndecodable, err)
	}
	a.countWait()
	ctx, endSpan := w.trace(ctx, a)
	err = w.handleAttempt(ctx, a)
	endSpan(err)
	if err != nil {
		w.recordFailure(ctx, a, err)
	}
	return err
}

// decode makes an attempt of a delivery. After an error there is no call to answer.
func (w *Worker) decode(delivery *consume.Delivery) (*attempt, error) {
	d, err := task.Decode(w.bus.Subjects, delivery)
	if err != nil {
		return nil, err
	}
	d.Tool, _ = w.registry.Definition(d.Call.Tool)
	d.CallsBack = w.registry.CallsBack(d.Call.Tool)
	return &attempt{Delivered: d}, nil
}

// errDone is the verdict of a step after which nothing is left to do: handle acknowledges the call.
var errDone = errors.New("nothing is left to do")

// handleAttempt does steps 4 to 9 of a call.
func (w *Worker) handleAttempt(ctx context.Context, a *attempt) error {
	toolCtx, res, err := w.toResult(ctx, a)
	defer w.executions.end(a)

	// 7 to 9. Offload, publish the result, acknowledge.
	if err == nil && res.Async && !res.IsError {
		res, err = w.toCompletion(ctx, toolCtx, a, res)
	}
	if err == nil {
		err = w.results.store(ctx, a, res)
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	if err == nil {
		w.results.removeHeld(ctx, a)
	}
	return err
}

// toResult does steps 4 to 6 of a call. toolCtx is the context of its tool, if the tool ran.
func (w *Worker) toResult(ctx context.Context, a *attempt) (toolCtx context.Context, res *tools.Result, err error) {
	if a.Invalid != nil {
		return nil, tools.Failure(a.Invalid), nil
	}
	if err := w.artifacts.readArgs(ctx, a.Delivered); err != nil {
		return nil, nil, err
	}
	if verdict := w.handOnUnknown(ctx, a); verdict != nil {
		return nil, nil, verdict
	}

	// 4. Resume. The call may be parked, have a result, be running, or be a once-only
	// call that was started. It may need an approval.
	w.step("resume")
	if err := w.resume(ctx, a, false); err != nil {
		return nil, nil, err
	}
	if denied, err := w.parking.approve(ctx, a); denied != nil || err != nil {
		return nil, denied, err
	}

	// 5. Claim. From here on, only this worker runs the call. The claim of a
	// once-only call is permanent.
	w.step("claim")
	if toolCtx, err = w.claim(ctx, a); err != nil {
		return nil, nil, err
	}
	if a.Redelivered && !a.Once() { // the claim of a once-only call ends its attempts
		end, err := w.beginAgain(ctx, toolCtx, a)
		if err != nil {
			return nil, nil, err
		}
		defer end()
	}

	// 6. Run. After a crash in this step the tool runs again, unless it is
	// once-only.
	w.step("run")
	waitRecorded := w.recordLastChannel(ctx, a)
	res = w.run(toolCtx, a)
	a.exec.flushProgress() // before the result
	waitRecorded()
	if errors.Is(context.Cause(toolCtx), errCancelled) { // before the tool ran, or before it knew what it had made
		if err := w.cancelMade(ctx, a); err != nil {
			_ = res.Close()
			return nil, nil, err
		}
	}
	res, err = w.returned(ctx, toolCtx, a, res)
	return toolCtx, res, err
}
