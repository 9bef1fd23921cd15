package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// recall finds out how far a call came that may have been here before, and
// waits while somebody runs it. If it reports answered, nothing is left to do.
func (w *Worker) recall(ctx context.Context, j *job) (answered bool, err error) {
	var (
		questions = backoff.NewExponentialBackOff(backoff.WithInitialInterval(askInterval),
			backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0))
		silent = time.Now() // since when nobody says that they run it
	)
	for {
		if answered, err := w.answeredBefore(ctx, j); answered || err != nil {
			return answered, err
		}
		busy, err := w.waitWhileRunningHere(ctx, j)
		if err != nil {
			return false, err
		}
		if !busy {
			if _, busy, err = task.FindRunning(ctx, w.bus, j.key.session, j.key.id, w.cfg.AskTimeout); err != nil {
				return false, err
			}
			started := false
			if !busy {
				started, err = w.startedForGood(ctx, j)
				if !started || err != nil {
					return false, err // nobody has it, and it may be run
				}
				if time.Since(silent) >= w.cfg.ClaimTimeout {
					return true, w.finish(ctx, j, unknownOutcome(j.call.Tool, ""))
				}
			}
			if err := w.pause(ctx, j, questions.NextBackOff()); err != nil {
				return false, err
			}
		}
		if busy {
			silent = time.Now()
		}
	}
}

// answeredBefore reports whether the call has its last answer on the bus.
func (w *Worker) answeredBefore(ctx context.Context, j *job) (bool, error) {
	stored, err := w.readResults(ctx, j.key)
	if len(stored) == 0 || err != nil {
		return false, err
	}
	if err := j.sameAs(stored[0].Digest); err != nil {
		return false, err
	}
	if stored[0].Outcome == tools.Async && !j.completedElsewhere(w.registry) {
		j.resultOut = true
		return task.Ended(stored), nil
	}
	return true, nil
}

// startedForGood reports whether the call is of a once-only tool and was
// started, so that it must not be run again. Of calls that are older than what
// is remembered, nobody knows.
func (w *Worker) startedForGood(ctx context.Context, j *job) (bool, error) {
	if !j.once() {
		return false, nil
	}
	claim, claimed, err := w.readClaim(ctx, j.key)
	if err != nil {
		return false, err
	}
	if claimed {
		return true, j.sameAs(claim.Digest)
	}
	return time.Since(j.delivery.Published) > bus.ResultsKept, nil
}

// unknownOutcome is the honest answer for a once-only tool that was started by
// a worker that is gone, and a word more.
func unknownOutcome(tool, more string) *tools.Result {
	text := fmt.Sprintf("The outcome of this call is unknown: the worker that ran %s stopped before it could report. "+
		"It may have acted completely, partly or not at all. It was not run again. Check its effects before you repeat it.%s", tool, more)
	res := tools.Failure(tools.Errorf(tools.CodeUnknownOutcome, "%s", text))
	res.ForUser = text
	return res
}

// sameAs reports whether what stands on the bus, by its digest, is about this
// very call; an id that was used for another one must not get its result.
func (j *job) sameAs(digest string) error {
	if j.digest == "" || digest == "" || digest == j.digest {
		return nil
	}
	return bus.Reject(tools.CodeMismatch, fmt.Errorf("the id %q was used in session %q before, with another tool or other arguments; choose a new id",
		tools.Excerpt(j.call.ID, 80), tools.Excerpt(j.call.Session, 80)))
}
