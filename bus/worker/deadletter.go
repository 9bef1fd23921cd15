package worker

import (
	"context"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// spare reports whether a call goes on although it was delivered so often: each
// step that it did earns it as many deliveries again, unless it was taken up that
// often since the last one.
func (w *Worker) spare(ctx context.Context, d *bus.Delivery) (bool, error) {
	j, err := w.decode(d)
	if err != nil || j.invalid != nil || j.raw != nil {
		return false, nil // the handler says what is wrong
	}
	standing, resumed, err := w.registry.Standing(ctx, j.call, d.Published)
	if !resumed || err != nil {
		return false, err
	}
	return standing.Vain < w.cfg.MaxAttempts && d.Attempt < w.cfg.MaxAttempts*(1+standing.Steps), nil
}

// abandon answers a call that became a dead letter, so that nobody waits for it
// in vain. rpc.RetryCall takes the answer back.
func (w *Worker) abandon(ctx context.Context, d *bus.Delivery, letter bus.Buried) error {
	if letter.Code == tools.CodeMismatch {
		return nil // the id is another call's, and so is the answer
	}
	j, err := w.decode(d)
	if err != nil {
		return nil // it names nobody
	}
	claimed := false
	if j.once() {
		if _, claimed, err = w.readClaim(ctx, j.key); err != nil {
			return err
		}
	}
	res := givenUp(letter)
	if claimed {
		res = unknownOutcome(j.call.Tool, fmt.Sprintf(" It is kept as a dead letter: worker dead show %d.", letter.Number))
	}
	err = w.finish(ctx, j, res)
	if _, foreign := bus.Rejected(err); foreign {
		return nil // what stands answers another call of this id
	}
	return err
}

// givenUp is the answer to a call that was never settled.
func givenUp(letter bus.Buried) *tools.Result {
	why := tools.Excerpt(letter.Reason, 2000)
	if letter.Code == bus.CodeExhausted {
		why = fmt.Sprintf("the last of %d attempts failed: %s", letter.Attempts, why)
	}
	return tools.Failure(tools.Errorf(tools.CodeGivenUp, "the call was given up on: %s. It is kept as a dead letter: worker dead show %d", why, letter.Number))
}

// finish gives a call its last answer in the place of a worker that cannot give
// it any more. One that may have started a job in the background ends as such
// jobs do, in a completion: whoever submitted it reads the end there, and the
// notifier tells the user of it.
func (w *Worker) finish(ctx context.Context, j *job, res *tools.Result) error {
	if ended, err := w.answeredBefore(ctx, j); ended || err != nil {
		return err
	}
	if !j.resultOut && j.raw == nil && j.invalid == nil && w.registry.CallsBack(j.call.Tool) {
		err := w.publish(ctx, j, tools.AsyncResult("The job may have been started in the background; its completion says what became of it."))
		if err != nil {
			return err
		}
		// What stands now may be somebody else's answer.
		if ended, err := w.answeredBefore(ctx, j); ended || err != nil {
			return err
		}
	}
	return w.publish(ctx, j, res)
}
