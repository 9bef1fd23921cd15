package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// A worker that dies may have held calls that it had not started. So deliveries are not
// attempts: an attempt is a start that a worker recorded. The first delivery is not
// recorded, so that a call that succeeds immediately costs nothing.

// startTimeout is how long a worker tries to record a start before it runs the call
// without the record.
const startTimeout = 30 * time.Second

// maxUnstarted multiplies MaxAttempts: a call that was delivered more often is given up
// even if no start is recorded, because it may kill its workers before they record it.
const maxUnstarted = 100

// countAttempts returns the number of attempts of the call, with this one. The first
// delivery counts as one, but does not suffice for a dead letter.
func (w *Worker) countAttempts(ctx context.Context, a *attempt) (int, error) {
	delivered := a.Attempt
	if !a.Redelivered || delivered > maxUnstarted*w.cfg.MaxAttempts {
		return delivered, nil
	}
	record, err := task.ReadRecord(ctx, w.bus, a.Key)
	first := 1 // the first delivery
	if record.Stopped {
		first = 0
	}
	if record.Starts == 0 {
		return min(delivered, 1+first, w.cfg.MaxAttempts), err
	}
	return min(delivered, record.Starts+1+first), err
}

// lastAlone is how long a last attempt waits for another one. It may wait for the call that waits here.
const lastAlone = time.Minute

// beginAgain begins an attempt of a call that was delivered before. If that took a while, the worker that lost the call may
// have stored its result since: then the error is errDone.
func (w *Worker) beginAgain(ctx, toolCtx context.Context, a *attempt) (end func(), err error) {
	began := time.Now()
	end, err = w.awaitLast(toolCtx, a)
	if err != nil {
		return nil, err
	}
	w.recordStart(ctx, a)
	if time.Since(began) > time.Second {
		var ended bool
		if ended, err = w.results.hasEnded(ctx, a); ended && err == nil {
			err = errDone
		}
	}
	if err != nil {
		end()
	}
	return end, err
}

// awaitLast waits until no other call has its last attempt in this process: a call that kills its
// workers soon uses up no last attempt but its own.
func (w *Worker) awaitLast(toolCtx context.Context, a *attempt) (end func(), err error) {
	if !a.Final {
		return func() {}, nil
	}
	select {
	case w.last <- struct{}{}:
		return func() { <-w.last }, nil
	case <-toolCtx.Done(): // run says why
	case <-time.After(lastAlone):
	case <-w.executions.stopping:
		return nil, handOn(0)
	}
	return func() {}, nil
}

// recordStart records the start of a call that was delivered before. If it cannot, the
// call runs without the record.
func (w *Worker) recordStart(ctx context.Context, a *attempt) {
	err := retry.Log(ctx, w.log, "cannot record the start of a call", startTimeout, bus.IsClosed, func() error { return task.CountStart(ctx, w.bus, a.Key, 1) })
	if a.startCounted = err == nil; !a.startCounted {
		w.log.Warn().Err(err).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("cannot record the start of a call; this attempt does not count")
	}
}

// recordFailure records an attempt that failed before the start. If the stop of the
// worker ended the attempt, it does not count.
func (w *Worker) recordFailure(ctx context.Context, a *attempt, verdict error) {
	_, rejected := consume.Rejected(verdict)
	switch {
	case ctx.Err() != nil && (a.startCounted || !a.Redelivered):
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		var err error
		if a.startCounted {
			err = task.CountStart(ctx, w.bus, a.Key, -1)
		} else {
			err = task.RecordStopped(ctx, w.bus, a.Key)
		}
		if err != nil {
			w.log.Warn().Err(err).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("an interrupted attempt counts")
		}
	case ctx.Err() == nil && !a.startCounted && a.Redelivered && !rejected && !isHandedOn(verdict):
		w.recordStart(ctx, a)
	}
}

// shouldRetry counts the attempts of a call, and reports whether to keep retrying a
// resumable one. Each completed step allows another MaxAttempts attempts, unless the
// call was restarted MaxAttempts times since its last step.
func (w *Worker) shouldRetry(ctx context.Context, d *consume.Delivery) (bool, error) {
	a, err := w.decode(d)
	if err != nil {
		return false, nil // handle reports what is wrong
	}
	if w.lacksTool(a) && d.Attempt <= maxUnstarted*w.cfg.MaxAttempts {
		if offered, err := w.isOffered(ctx, a); offered || err != nil {
			return offered, err
		}
	}
	attempts, err := w.countAttempts(ctx, a)
	if err != nil {
		return false, err
	}
	d.Attempt = attempts
	if a.Invalid != nil || a.Raw != nil {
		return a.Raw != nil, nil // no tool runs that could kill its workers
	}
	checkpoint, resumed, err := w.registry.Checkpoint(ctx, a.Call, d.Published)
	if err != nil {
		return false, err
	}
	if resumed && checkpoint.Restarts < w.cfg.MaxAttempts && d.Attempt < w.cfg.MaxAttempts*(1+checkpoint.Steps) {
		return true, nil
	}
	if d.Attempt <= w.cfg.MaxAttempts || a.Once() { // a start of a once-only call is its claim
		return false, nil
	}
	// The lease of the last attempt may have ended although its worker lives.
	if err = w.resume(ctx, a, false); errors.Is(err, errDone) {
		return true, nil
	}
	return false, err
}

// answerDeadLetter publishes a result for a call that became a dead letter, so
// that no caller waits for it. A once-only call gets the outcome unknown if a worker
// claimed it. rpc.ChangeLetters removes that result and the claim.
func (w *Worker) answerDeadLetter(ctx context.Context, d *consume.Delivery, letter dead.Stored) error {
	a, err := w.decode(d)
	if err != nil {
		return nil // it names no call
	}
	if letter.Code == tools.CodeMismatch {
		return nil // the result of this id belongs to another call
	}
	return w.publishGivenUp(ctx, a, letter)
}

// publishGivenUp publishes the result of a call that became a dead letter.
func (w *Worker) publishGivenUp(ctx context.Context, a *attempt, letter dead.Stored) error {
	res := deadLetterResult(a.Call, letter)
	if a.Once() {
		// From here on, no worker can start the call.
		claim, won, err := w.writeClaim(ctx, a, true)
		switch {
		case err != nil:
			return err
		case won || claim.GivenUp:
		case a.Check(claim.Digest) != nil:
			return nil // the claim belongs to another call with this id
		default:
			res = unknownOutcome(a.Call.Tool, fmt.Sprintf(" The call is stored as dead letter %d.", letter.Number))
		}
	}
	err := w.results.end(ctx, a, res)
	if _, mismatch := consume.Rejected(err); mismatch {
		return nil // the stored result belongs to another call with this id
	}
	return err
}

// deadLetterResult is the result of a call that the bus stopped retrying.
func deadLetterResult(call tools.Call, letter dead.Stored) *tools.Result {
	reason := tools.Excerpt(letter.Reason, 2000)
	if letter.Code == consume.CodeExhausted {
		reason = fmt.Sprintf("the last of %d attempts failed: %s", letter.Attempts, reason)
	}
	res := tools.Failure(tools.Errorf(tools.CodeGivenUp, "the worker gave up on the call: %s. The call is stored as dead letter %d", reason, letter.Number))
	if call.Channel != "" { // nobody else tells the user of an agent
		res.ForUser = fmt.Sprintf("%s did not succeed: %s", call.Tool, res.ForLLM)
	}
	return res
}
