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
	if a.invalid != nil {
		return w.offloadAndPublish(ctx, a, tools.Failure(a.invalid))
	}

	if a.resumed.ArgsIn != "" {
		if err := w.readArgs(ctx, a); err != nil {
			return err
		}
	}

	// 4. Resume. The call may be parked, have a result, be running, or be a once-only
	// call that was started.
	if parked, err := w.isParked(ctx, a); parked || err != nil {
		return err
	}
	if w.lacksTool(a) {
		if verdict := w.handOnUnknown(ctx, a); verdict != nil {
			return verdict
		}
	}
	if !a.delivery.Ahead && w.records.WasAhead(a.key, a.delivery.Sequence) {
		a.delivery.Redelivered = true
	}
	known, err := w.mayHaveRun(ctx, a)
	if err != nil {
		return err
	}
	if known {
		w.step("resume")
		resume := w.resume
		if !a.delivery.Redelivered && (a.delivery.Republished || a.once()) {
			resume = w.hasFinalResult // no worker runs a call that was settled; a claim shows who runs a once-only one
		}
		if ended, err := resume(ctx, a); ended || err != nil {
			return err
		}
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
	if a.delivery.Redelivered && !a.once() { // the claim of a once-only call ends its attempts
		w.recordStart(ctx, a)
	}

	// 6. Run. After a crash in this step the tool runs again, unless it is
	// once-only.
	w.step("run")
	waitRecorded := w.recordLastChannel(ctx, a)
	res := w.run(toolCtx, a)
	a.exec.flushProgress() // before the result
	waitRecorded()
	if ctx.Err() != nil { // the worker is stopping
		return w.interrupted(ctx, a, res)
	}

	if pause, ok := a.pauseOf(toolCtx, res); ok {
		return w.pause(ctx, a, pause)
	}
	if errors.Is(res.Err, tools.ErrTakenOver) && res.IsError && !a.once() {
		return handOn(0)
	}
	if errors.Is(res.Err, tools.ErrInterrupted) && res.IsError && toolCtx.Err() == nil {
		if !a.once() {
			return handOn(interruptedPause)
		}
		res = unknownOutcome(a.call.Tool, "")
	}

	// 7 to 9. Offload, publish the result, acknowledge.
	if res.Async && !res.IsError {
		return w.handleAsync(ctx, toolCtx, a, res)
	}
	return w.offloadAndPublish(ctx, a, res)
}

// interruptedPause is the pause before a call runs again whose tool lost its connection.
const interruptedPause = time.Second

// maxSlotless limits the calls that need no slot: a worker publishes their results, or asks
// others for their tools.
const maxSlotless = 512

// offloadAndPublish does steps 7 and 8 with a result or a completion, and closes
// it. If it returns nil, handle can acknowledge the call.
func (w *Worker) offloadAndPublish(ctx context.Context, a *attempt, res *tools.Result) error {
	defer res.Close()

	// 7. Offload. The content is durable before the result that refers to it.
	w.step("offload")
	short, err := w.offloadResult(ctx, a.call, a.def, res)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		w.log.Error().Err(err).Str("call", a.key.ID).Str("session", a.key.Session).Msg("cannot store the result; publishing the content that fits")
		short = w.offloader.Fallback(a.call, res, err)
	}

	// 8. Publish the result. The first result of a call wins. If the server syncs, it
	// stores many results together, so this uses no slot.
	w.step("publish")
	if w.slotless.Add(1) <= maxSlotless {
		a.delivery.ReleaseSlot()
	}
	defer w.slotless.Add(-1)
	err = w.publishResult(ctx, a, short)
	if errors.Is(err, bus.ErrTooLarge) {
		err = w.publishResult(ctx, a, w.offloader.Fallback(a.call, res, err))
	}
	if err != nil {
		return err
	}

	// 9. Acknowledge. If the acknowledgement is lost, step 4 ends the redelivery.
	w.step("ack")
	return nil
}
