package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A call whose tool returns a tools.Pause, or that waits for an approval, is parked: its
// record replaces its message, so that it holds no worker, no slot and no place in the
// calls stream. Each worker follows all records (task.ParkedCalls) and publishes a call
// again when its wait is over.

// unparkable is how long a call waits that does not fit into a record.
const unparkable = 10 * time.Minute

// isParked reports whether the record of a parked call replaces this delivery, so that
// nothing is left to do with it: the delivery is older than the record.
func (w *Worker) isParked(ctx context.Context, a *attempt) (bool, error) {
	p, ok := w.parked.Find(a.key.callKey())
	if !ok || a.raw != nil || a.parkedRevision >= p.Revision {
		return false, nil
	}
	if err := a.checkDigest(p.Digest()); err != nil {
		return true, err
	}
	if p.Held != "" {
		return w.awaitHeld(ctx, a, p)
	}
	return true, w.ask(ctx, p)
}

// pause parks a call whose tool returned a pause.
func (w *Worker) pause(ctx context.Context, a *attempt, p *tools.Pause) error {
	parked := task.Parked{State: task.Waiting, Started: task.ParkedStarted(a.delivery, a.started), Reason: p.Reason, Until: p.Until, WaitsFor: p.WaitsFor, Made: p.Made}
	if p.Err != nil {
		parked.Detail = p.Err.Error()
	}
	w.log.Info().Str("call", a.key.id).Str("session", a.key.session).Str("tool", a.call.Tool).Str("reason", p.Reason).Time("until", p.Until).Msg("call parked")
	err := w.park(ctx, a, parked)
	if errors.Is(err, bus.ErrTooLarge) { // its message stays in the stream
		return bus.RetryAfter(min(max(time.Until(p.Until), time.Second), unparkable), nil)
	}
	return err
}

// park stores the record of a call. If it returns nil, handle can acknowledge the call.
// bus.ErrTooLarge means that the call does not fit into a record.
func (w *Worker) park(ctx context.Context, a *attempt, p task.Parked) error {
	if p.Call.ID == "" {
		p.Call = a.call
	}
	p.Queue, p.Worker, p.Traceparent = a.queue, w.cfg.Name, a.delivery.Traceparent()
	p.Since, p.Order = time.Now().UTC(), a.delivery.Order()
	p.Until = p.Until.UTC()
	if deadline := a.call.Deadline; !deadline.IsZero() && deadline.Before(p.Until) {
		p.Until = deadline.UTC()
	}
	err := w.retry(ctx, "cannot park a call", 0, func(err error) bool { return errors.Is(err, bus.ErrTooLarge) }, func() (err error) {
		p.Revision, err = task.Park(ctx, w.bus, p)
		return err
	})
	if err != nil {
		return err
	}
	w.parked.Add(p)
	if p.Made { // a cancellation may have found no record
		if ended, err := w.hasFinalResult(ctx, a); err != nil {
			return err
		} else if ended {
			return task.CancelParked(ctx, w.bus, p.Key(), cancelledBy)
		}
	}
	if a.start != "" { // a start that ended in a pause is not a failed attempt
		if err := task.ForgetStart(ctx, w.bus, a.start); err != nil {
			w.log.Warn().Err(err).Str("call", a.key.id).Str("session", a.key.session).Msg("a paused attempt counts")
		}
	}
	return nil
}

// cancelledBy names who cancels the parked calls of a call that was cancelled.
const cancelledBy = "the call that made it"

// cancelMade cancels the calls that a call made which has ended. It was cancelled while a
// worker published it again, so that its record was gone.
func (w *Worker) cancelMade(ctx context.Context, a *attempt) error {
	if a.parkedRevision == 0 || a.raw != nil {
		return nil
	}
	return task.CancelAll(ctx, w.bus, task.ParkedMade(a.delivery, a.key.session), cancelledBy)
}

func (k key) callKey() tools.CallKey { return tools.CallKey{Session: k.session, ID: k.id} }
