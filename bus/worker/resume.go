package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// askInterval is the first pause between two requests for the worker that runs a
// call. The pauses grow, because every worker receives every request.
const askInterval = 250 * time.Millisecond

// resume handles a call that may have been delivered before. It waits while any
// worker is running the call. It returns true if the call already has its final
// result and nothing is left to do.
func (w *Worker) resume(ctx context.Context, a *attempt) (ended bool, err error) {
	var (
		pauses      = retry.Pauses(askInterval, 30*time.Second, 0)
		silentSince = time.Now() // since when no worker has reported that it runs the call
	)
	for {
		if parked, err := w.isParked(ctx, a); parked || err != nil {
			return parked, err
		}
		if ended, err := w.hasFinalResult(ctx, a); ended || err != nil {
			return ended, err
		}
		if exec := w.executions.find(a.key); exec != nil {
			if err := w.detachAndWait(ctx, a, exec.ended); err != nil {
				return false, err
			}
			silentSince = time.Now()
			continue
		}
		claim, started, err := w.onceStarted(ctx, a)
		if err != nil {
			return false, err
		}
		died, running := false, false
		if started || !a.once() { // otherwise no worker runs it: it would have claimed it before
			if died, running, err = w.findHolder(ctx, a, claim); err != nil {
				return false, err
			}
		}
		switch {
		case running:
		case !started && time.Now().Before(w.othersBackBy):
		case !started: // it may run again, unless it ended while this worker asked
			return w.hasFinalResult(ctx, a)
		case died || time.Since(silentSince) >= w.cfg.ClaimTimeout:
			res := unknownOutcome(a.call.Tool, "")
			if claim.GivenUp {
				res = tools.Failure(tools.Errorf(tools.CodeGivenUp, "worker %s gave up on the call before any worker ran it", claim.Worker))
			}
			return true, w.publishFinal(ctx, a, res)
		}
		if err := w.detachAndWait(ctx, a, after(pauses.NextBackOff())); err != nil {
			return false, err
		}
		if running {
			silentSince = time.Now()
		}
	}
}

// findHolder reports whether the worker that had the call died for certain, or else whether
// a worker is running the call. claim is that of a once-only call; it may be empty.
func (w *Worker) findHolder(ctx context.Context, a *attempt, claim task.Claim) (died, running bool, err error) {
	if w.holderDied(a, claim) {
		return true, false, nil
	}
	_, running, err = task.FindRunning(ctx, w.bus, a.key.Session, a.key.ID, w.cfg.AskTimeout)
	return false, running, err
}

// mayHaveRun reports whether the call was delivered before, or was published before and
// perhaps has a result. A once-only call may have one although nobody claimed it, for
// example because no worker had its tool.
func (w *Worker) mayHaveRun(ctx context.Context, a *attempt) (bool, error) {
	if a.delivery.Redelivered || a.delivery.Republished {
		return true, nil
	}
	if a.delivery.Header(bus.FreshHeader) != "" {
		return false, nil
	}
	if a.once() {
		return true, nil
	}
	_, stored, err := w.readResult(ctx, w.bus.Result(a.key.Session, a.key.ID))
	return stored, err
}

// detachAndWait waits until done is closed. Waiting uses no slot, and the worker keeps the
// lease. If the worker stops, it hands the call to another one immediately.
func (w *Worker) detachAndWait(ctx context.Context, a *attempt, done <-chan struct{}) error {
	a.delivery.Detach()
	select {
	case <-done:
		return nil
	case <-w.stopping:
		return handOn(0)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasFinalResult reports whether the final result or the completion of the call
// is stored.
func (w *Worker) hasFinalResult(ctx context.Context, a *attempt) (bool, error) {
	stored, err := w.readResults(ctx, a.key)
	if len(stored) == 0 || err != nil {
		return false, err
	}
	if err := a.checkDigest(stored[0].Digest); err != nil {
		return false, err
	}
	final := true
	if stored[0].Outcome == tools.Async && !a.completesElsewhere {
		a.resultPublished, final = true, task.Ended(stored)
	}
	return final, w.report(ctx, a, stored[0].ResultEvent, stored[0].Body) // the worker that stored it may have died before
}

// publishFinal publishes the final result of a call that no worker will finish. If
// the tool may be running in the background, the final result is a completion: the
// submitter and the notifier expect it there.
func (w *Worker) publishFinal(ctx context.Context, a *attempt, res *tools.Result) error {
	if ended, err := w.hasFinalResult(ctx, a); ended || err != nil {
		return err
	}
	if !a.resultPublished && a.raw == nil && a.invalid == nil && a.callsBack {
		err := w.publishResult(ctx, a, tools.AsyncResult("The tool may have been started in the background. The completion of this call will report its outcome."))
		if err != nil {
			return err
		}
		// Another worker's result may have won.
		if ended, err := w.hasFinalResult(ctx, a); ended || err != nil {
			return err
		}
	}
	return w.publishResult(ctx, a, res)
}

// onceStarted reports whether the call is once-only and was claimed, so that it must
// not run again, and returns the claim. It assumes so if the stream may have dropped
// the claim.
func (w *Worker) onceStarted(ctx context.Context, a *attempt) (claim task.Claim, started bool, err error) {
	if !a.once() {
		return claim, false, nil
	}
	claim, claimed, err := w.readClaim(ctx, a.key)
	if err != nil {
		return claim, false, err
	}
	if claimed {
		return claim, true, a.checkDigest(claim.Digest)
	}
	var since time.Time
	err = w.readWithRetry(ctx, func() (err error) {
		since, err = w.drops.CompleteSince(ctx, w.bus)
		return err
	})
	return claim, a.delivery.Published.Before(since), err
}

// unknownOutcome is the result of a once-only call whose worker stopped while it
// ran the tool. The result ends with hint.
func unknownOutcome(tool, hint string) *tools.Result {
	text := fmt.Sprintf("The outcome of this call is unknown: the worker stopped while it ran %s. "+
		"The tool may have done all, a part or none of its work. It was not run again. Check its effects before you repeat the call.%s", tool, hint)
	res := tools.Failure(tools.Errorf(tools.CodeUnknownOutcome, "%s", text))
	res.ForUser = text
	return res
}

// after returns a channel that is closed after a pause.
func after(pause time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(pause, func() { close(done) })
	return done
}

const (
	// returnTime is longer than other workers need to connect to a server that has restarted.
	returnTime = 15 * time.Second
	// announceInterval is the pause between two announcements of a worker.
	announceInterval = time.Hour
)

// takeOver finds out whether the deliveries of an earlier process are certainly without a
// worker. It is called before this worker consumes or answers requests.
//
// With OwnServer, the server and the worker end together. So a call that was stored before
// this start can only have run in a dead process, unless another worker uses the server. That
// one has announced itself, and may need a while until it is connected again and answers.
func (w *Worker) takeOver(ctx context.Context) error {
	if !w.cfg.OwnServer {
		return w.announce(ctx)
	}
	others, err := task.OthersAnnounced(ctx, w.bus)
	if others {
		w.othersBackBy = time.Now().Add(returnTime)
	} else if err == nil {
		w.aloneAt = time.Now()
	}
	return err
}

// announce announces this worker to the next process of the server.
func (w *Worker) announce(ctx context.Context) error {
	return w.retry(ctx, "cannot announce this worker", startTimeout, isClosed, func() error { return task.Announce(ctx, w.bus) })
}

// keepAnnounced repeats the announcement until ctx ends.
func (w *Worker) keepAnnounced(ctx context.Context) {
	ticker := time.NewTicker(announceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = w.announce(ctx) // retry has logged it
		}
	}
}

// holderDied reports whether it is certain that no process runs the call any more, without
// asking the workers. claim is that of a once-only call; it may be empty.
func (w *Worker) holderDied(a *attempt, claim task.Claim) bool {
	if !w.cfg.OwnServer {
		return false
	}
	if claim != (task.Claim{}) {
		return claim.OwnServer && claim.Process != "" && claim.Process != w.process
	}
	return a.delivery.Published.Before(w.aloneAt)
}
