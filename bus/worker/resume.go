package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// askInterval is the first pause between two requests for the worker that runs a
// call. The pauses grow, because every worker receives every request.
const askInterval = 250 * time.Millisecond

// resume asks where a call is, and waits while any worker is running it. It returns no error if
// this worker may start the call, and errDone if nothing is left to do.
func (w *Worker) resume(ctx context.Context, a *attempt, contested bool) error {
	var (
		pauses      = retry.Pauses(askInterval, 30*time.Second, 0)
		silentSince = time.Now() // since when no worker has reported that it runs the call
	)
	for {
		place, err := w.locator.Locate(ctx, a.Delivered, contested)
		if err == nil {
			err = w.results.found(ctx, a, place.Stored)
		}
		if err != nil {
			return err
		}
		switch place.Where {
		case task.IsFresh, task.IsResumed:
			return nil
		case task.IsParked:
			return done(w.parking.gate.AskAbout(ctx, place.Parked))
		case task.HasEnded:
			if n := len(place.Stored); n > 0 && place.Stored[n-1].Outcome == tools.Cancelled {
				return done(w.cancelMade(ctx, a))
			}
			return errDone
		case task.IsClaimed:
			if place.Died || time.Since(silentSince) >= w.cfg.ClaimTimeout {
				return done(w.results.end(ctx, a, lostResult(a.Call.Tool, place.Claim)))
			}
		case task.IsRunning:
		}
		ended := place.Here
		if ended == nil {
			ended = after(pauses.NextBackOff())
		}
		if err := w.detachAndWait(ctx, a, ended); err != nil {
			return err
		}
		if place.Where == task.IsRunning {
			silentSince = time.Now()
		}
	}
}

// cancelMade cancels what a cancelled call made whose worker died: that one would have done it.
func (w *Worker) cancelMade(ctx context.Context, a *attempt) error {
	if !a.Redelivered {
		return nil
	}
	made, err := w.registry.Made(ctx, a.Call)
	if err == nil {
		err = task.CancelMade(ctx, w.bus, made)
	}
	return err
}

// done returns errDone if a last step succeeded, and otherwise its error.
func done(err error) error {
	if err == nil {
		return errDone
	}
	return err
}

// detachAndWait waits until done is closed. Waiting uses no slot, and the worker keeps the
// lease. If the worker stops, it hands the call to another one immediately.
func (w *Worker) detachAndWait(ctx context.Context, a *attempt, done <-chan struct{}) error {
	a.Detach()
	select {
	case <-done:
		return nil
	case <-w.executions.stopping:
		return handOn(0)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// after returns a channel that is closed after a pause.
func after(pause time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(pause, func() { close(done) })
	return done
}

// claim registers the attempt as running here until executions.end, and returns the
// context for its tool. If another delivery or worker has the call, claim waits as
// resume does.
func (w *Worker) claim(ctx context.Context, a *attempt) (toolCtx context.Context, err error) {
	for {
		toolCtx, claimed := w.executions.begin(ctx, a)
		if claimed && a.Once() {
			claimed, err = w.claimOnce(ctx, a)
		}
		if claimed || err != nil {
			return toolCtx, err
		}
		w.executions.end(a)
		if err := w.resume(ctx, a, true); err != nil {
			return nil, err
		}
	}
}

// slowClaim is shorter than a worker waits for one that has claimed a call and does not answer.
const slowClaim = time.Second

// claimOnce stores the claim of a once-only call. If that took long, because the acknowledgement was lost, another worker may
// have ended the call as one that nobody runs: then the error is errDone.
func (w *Worker) claimOnce(ctx context.Context, a *attempt) (won bool, err error) {
	began := time.Now()
	if _, won, err = w.writeClaim(ctx, a, false); !won || err != nil || time.Since(began) < slowClaim {
		return won, err
	}
	ended, err := w.results.hasEnded(ctx, a)
	if ended && err == nil {
		err = errDone
	}
	return won, err
}

// writeClaim stores the claim of a call that this worker starts, or gives up on. It returns the
// stored one and whether it is this one: the first claim wins.
func (w *Worker) writeClaim(ctx context.Context, a *attempt, giveUp bool) (stored task.Claim, won bool, err error) {
	claim := task.Claim{Worker: w.cfg.Name, Process: w.locator.Process, OwnServer: w.locator.OwnServer, Digest: a.Digest, At: a.Started}
	if giveUp {
		claim.GivenUp, claim.CallSequence = true, a.Sequence
	}
	return w.locator.Claim(ctx, a.Key, claim)
}

// lostResult is the result of a once-only call that was claimed and that no worker runs.
func lostResult(tool string, claim task.Claim) *tools.Result {
	if claim.GivenUp {
		return tools.Failure(tools.Errorf(tools.CodeGivenUp, "worker %s gave up on the call before any worker ran it", claim.Worker))
	}
	return unknownOutcome(tool, "")
}
