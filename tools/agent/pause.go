package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// After a provider failed for longer than a request is retried, the run waits this long,
	// and twice as long after each further failure. So it goes on within a minute of the
	// provider's return.
	firstWait = 5 * time.Second
	maxWait   = 50 * time.Second
	// busyWait is how much longer than a parked run the next run of its session waits.
	busyWait = time.Second
)

// Wait says why a run waits, and until when.
type Wait struct {
	Until time.Time         `json:"until"`
	Error *tools.EventError `json:"error"`
}

func isPause(err error) bool {
	_, ok := tools.PauseOf(err)
	return ok
}

// joinPauses joins the errors of the calls of a turn. Their pauses become one, which ends
// with the first of them.
func joinPauses(errs []error) error {
	var joined *tools.Pause
	more := 0
	for i, err := range errs {
		pause, ok := tools.PauseOf(err)
		if !ok {
			continue
		}
		errs[i] = nil
		if joined == nil {
			joined = new(*pause)
			continue
		}
		more++
		joined.WaitsFor = append(slices.Clone(joined.WaitsFor), pause.WaitsFor...)
		if pause.Until.Before(joined.Until) {
			joined.Until = pause.Until
		}
	}
	if joined == nil {
		return errors.Join(errs...)
	}
	if more > 0 {
		joined.Reason = fmt.Sprintf("%s, and %d more", joined.Reason, more)
	}
	return errors.Join(append(errs, joined)...)
}

// waitOrFail handles an error of a run: if it is a temporary failure of the provider, the
// run waits, and otherwise it fails. The log has an entry for each wait, so that all
// processes know how long the provider has been failing.
func (r *run) waitOrFail(ctx context.Context, cause error) (Outcome, error) {
	failure, ok := errors.AsType[*ProviderError](cause)
	if !ok || !failure.Retryable || r.cfg.OutageTimeout < 0 {
		return r.finish(ctx, Failed, cause)
	}
	waits, now := r.conv.open.waits, time.Now()
	since := now
	if len(waits) > 0 {
		since = waits[0]
	}
	giveUp := since.Add(r.cfg.OutageTimeout)
	if !now.Before(giveUp) {
		failed := *failure
		failed.Message = fmt.Sprintf("%s (after %s of attempts)", failure.Message, now.Sub(since).Round(time.Minute))
		return r.finish(ctx, Failed, &failed)
	}
	delay := min(firstWait<<min(len(waits), 10), maxWait)
	delay -= rand.N(delay/5 + 1) // many runs may wait for the same provider
	until := now.Add(max(delay, failure.RetryAfter))
	if until.After(giveUp) {
		until = giveUp
	}
	if deadline, ok := ctx.Deadline(); ok && until.After(deadline) {
		until = deadline
	}
	until = until.UTC()
	wait := &Wait{Until: until, Error: &tools.EventError{Code: failure.Code, Message: failure.Error()}}
	if err := r.append(ctx, Entry{Kind: KindWaiting, Wait: wait}); err != nil {
		return Outcome{}, errors.Join(err, cause)
	}
	r.reportWaiting(ctx, r.conv.open.turns+1, fmt.Sprintf("%s; the next attempt is in %s", failure, time.Until(until).Round(time.Second)))
	r.cfg.Log.Warn().Err(cause).Str("session", r.session).Str("run", r.id).Time("until", until).Msg("the provider of the model fails; the run waits")
	return Outcome{}, &tools.Pause{Until: until, Reason: tools.WaitingForModel, Err: cause}
}

// waitForEarlier returns errSessionBusy or a pause if an earlier message of the session has
// no run yet. It may be on its way to another worker. After StaleAfter, the run starts.
func (r *run) waitForEarlier(ctx context.Context, stale bool) error {
	if r.cfg.Earlier == nil || stale {
		return nil
	}
	for id, err := range r.cfg.Earlier(ctx, r.session, r.id) {
		if err != nil {
			return fmt.Errorf("%w: look for earlier runs of conversation %s: %w", errLog, r.session, err)
		}
		if r.conv.ended[id] != nil {
			continue
		}
		call := tools.CallKey{Session: r.session, ID: id}
		switch reason, err := r.endOf(ctx, call); {
		case err != nil:
			return err
		case reason == "":
			return cmp.Or(r.waitForParked(ctx, call), errSessionBusy)
		}
	}
	return nil
}

// endOf returns why a run ended that has its result, or "".
func (r *run) endOf(ctx context.Context, call tools.CallKey) (reason Reason, err error) {
	if r.cfg.EndOf == nil {
		return "", nil
	}
	if reason, err = r.cfg.EndOf(ctx, call); err != nil {
		err = fmt.Errorf("%w: check run %s: %w", errLog, call.ID, err)
	}
	return reason, err
}

// waitForParked returns a pause if another run of the session is parked: this run waits
// without a worker too.
func (r *run) waitForParked(ctx context.Context, call tools.CallKey) error {
	if r.cfg.Parked == nil {
		return nil
	}
	until, ok, err := r.cfg.Parked(ctx, call)
	switch {
	case err != nil:
		return fmt.Errorf("%w: check run %s: %w", errLog, call.ID, err)
	case !ok:
		return nil
	}
	return &tools.Pause{
		Until: until.Add(busyWait), WaitsFor: []tools.CallKey{call},
		Reason: fmt.Sprintf("waiting for the run %s of this session", call.ID),
	}
}

// isStopping reports whether the worker of a run stops.
func isStopping(ctx context.Context) bool {
	select {
	case <-tools.Stopping(ctx):
		return true
	default:
		return false
	}
}

// handedBack is the pause of a run whose worker stops: another worker continues soon. calls are those that the run may have made.
func handedBack(calls ...tools.CallKey) error {
	return &tools.Pause{Until: time.Now().UTC(), WaitsFor: calls, Made: len(calls) > 0, Reason: "waiting for another worker, because the last one stopped"}
}
