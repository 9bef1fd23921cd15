package worker

import (
	"context"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// shouldRetry counts the attempts of a call, and reports whether to keep retrying a
// resumable one. Each completed step allows another MaxAttempts attempts, unless the
// call was restarted MaxAttempts times since its last step.
func (w *Worker) shouldRetry(ctx context.Context, d *bus.Delivery) (bool, error) {
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
	if a.invalid != nil || a.raw != nil {
		return false, nil
	}
	checkpoint, resumed, err := w.registry.Checkpoint(ctx, a.call, d.Published)
	if err != nil {
		return false, err
	}
	if resumed && checkpoint.Restarts < w.cfg.MaxAttempts && d.Attempt < w.cfg.MaxAttempts*(1+checkpoint.Steps) {
		return true, nil
	}
	if d.Attempt <= w.cfg.MaxAttempts || a.once() { // a start of a once-only call is its claim
		return false, nil
	}
	// The lease of the last attempt may have ended although its worker lives.
	return w.resume(ctx, a)
}

// answerDeadLetter publishes a result for a call that became a dead letter, so
// that no caller waits for it. A once-only call gets the outcome unknown if a worker
// claimed it. rpc.RetryCall removes that result and the claim. The call no longer waits for
// an approval.
func (w *Worker) answerDeadLetter(ctx context.Context, d *bus.Delivery, letter dead.Stored) error {
	a, err := w.decode(d)
	if err != nil {
		return nil // it names no call
	}
	if letter.Code != tools.CodeMismatch { // otherwise, the result of this id belongs to another call
		if err := w.publishGivenUp(ctx, a, letter); err != nil {
			return err
		}
	}
	return w.forgetQuestion(ctx, a)
}

// publishGivenUp publishes the result of a call that became a dead letter.
func (w *Worker) publishGivenUp(ctx context.Context, a *attempt, letter dead.Stored) error {
	res := deadLetterResult(a.call, letter)
	if a.once() {
		// From here on, no worker can start the call.
		claim, won, err := w.writeClaim(ctx, a, task.Claim{GivenUp: true})
		switch {
		case err != nil:
			return err
		case won || claim.GivenUp:
		case a.checkDigest(claim.Digest) != nil:
			return nil // the claim belongs to another call with this id
		default:
			res = unknownOutcome(a.call.Tool, fmt.Sprintf(" The call is stored as dead letter %d.", letter.Number))
		}
	}
	err := w.publishFinal(ctx, a, res)
	if _, mismatch := bus.Rejected(err); mismatch {
		return nil // the stored result belongs to another call with this id
	}
	return err
}

// deadLetterResult is the result of a call that the bus stopped retrying.
func deadLetterResult(call tools.Call, letter dead.Stored) *tools.Result {
	reason := tools.Excerpt(letter.Reason, 2000)
	if letter.Code == bus.CodeExhausted {
		reason = fmt.Sprintf("the last of %d attempts failed: %s", letter.Attempts, reason)
	}
	res := tools.Failure(tools.Errorf(tools.CodeGivenUp, "the worker gave up on the call: %s. The call is stored as dead letter %d", reason, letter.Number))
	if call.Channel != "" { // nobody else tells the user of an agent
		res.ForUser = fmt.Sprintf("%s did not succeed: %s", call.Tool, res.ForLLM)
	}
	return res
}
