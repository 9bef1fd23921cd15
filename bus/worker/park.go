package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A call whose tool returns a tools.Pause, or that waits for an approval, is parked: its
// record replaces its message, so that it holds no worker, no slot and no place in the
// calls stream. Each worker follows all records (task.Follower) and publishes a call again
// when its wait is over.

// unparkable is how long a call waits that does not fit into a record.
const unparkable = 10 * time.Minute

// isParked reports whether the record of a parked call replaces this delivery, so that
// nothing is left to do with it: the delivery is older than the record.
func (w *Worker) isParked(ctx context.Context, a *attempt) (bool, error) {
	p, ok := w.records.Find(a.key)
	if !ok || a.raw != nil || a.parkedNumber >= p.Number {
		return false, nil
	}
	if err := a.checkDigest(p.Digest); err != nil {
		return true, err
	}
	return true, w.ask(ctx, p)
}

// pause parks a call whose tool returned a pause.
func (w *Worker) pause(ctx context.Context, a *attempt, p *tools.Pause) error {
	parked := task.Parked{State: task.Waiting, Started: task.ParkedStarted(a.delivery, a.started), Reason: p.Reason, Until: p.Until, WaitsFor: p.WaitsFor, Made: p.Made}
	if p.Err != nil {
		parked.Detail = p.Err.Error()
	}
	_, err := w.park(ctx, a, parked)
	if errors.Is(err, bus.ErrTooLarge) { // its message stays in the stream
		return bus.RetryAfter(min(max(time.Until(p.Until), time.Second), unparkable), nil)
	}
	return err
}

// largeArgs is the share of the server's limit for a message above which the arguments of a
// parked call are kept in an artifact: the answer and the rest of the record need space too.
const largeArgs = 2

// park parks a call. If it returns no error, handle can acknowledge the call.
// bus.ErrTooLarge means that the call does not fit into a record.
func (w *Worker) park(ctx context.Context, a *attempt, p task.Parked) (task.Parked, error) {
	p.Call, p.Digest, p.Queue, p.Worker, p.Traceparent = a.call, a.digest, a.queue, w.cfg.Name, a.delivery.Traceparent()
	p.Since, p.Until, p.Order = time.Now().UTC(), p.Until.UTC(), a.delivery.Order()
	if deadline := a.call.Deadline; !deadline.IsZero() && deadline.Before(p.Until) {
		p.Until = deadline.UTC()
	}
	if len(a.call.Args) > int(w.bus.Conn().MaxPayload())/largeArgs {
		if err := w.storeArgs(ctx, a, &p); err != nil {
			return p, err
		}
	}
	err := w.retry(ctx, "cannot park a call", 0, func(err error) bool { return errors.Is(err, bus.ErrTooLarge) }, func() (err error) {
		p.Number, err = task.Park(ctx, w.bus, p)
		return err
	})
	if err != nil {
		return p, err
	}
	w.log.Info().Str("call", a.key.ID).Str("session", a.key.Session).Str("tool", a.call.Tool).Str("reason", p.Reason).Time("until", p.Until).Msg("call parked")
	w.records.Add(p)
	if p.Made { // a cancellation may have found no record
		if ended, err := w.hasFinalResult(ctx, a); err != nil {
			return p, err
		} else if ended {
			return p, task.CancelParked(ctx, w.bus, a.key, cancelledBy)
		}
	}
	if a.startCounted { // a start that ended in a pause is not a failed attempt
		if err := task.CountStart(ctx, w.bus, a.key, -1); err != nil {
			w.log.Warn().Err(err).Str("call", a.key.ID).Str("session", a.key.Session).Msg("a paused attempt counts")
		}
	}
	return p, nil
}

// maxShownArgs is how much of arguments that are kept in an artifact a question shows, in
// bytes.
const maxShownArgs = 2000

// storeArgs keeps the arguments of a call in an artifact, and their start in the record.
func (w *Worker) storeArgs(ctx context.Context, a *attempt, p *task.Parked) error {
	call := tools.Call{ID: "args-" + a.key.ID, Session: a.call.Session, Tool: a.call.Tool, Offload: new(true)}
	res := w.offloadResult(ctx, &attempt{call: call, def: a.def, key: tools.CallKey{Session: a.key.Session, ID: call.ID}}, tools.NewToolResult(string(a.call.Args)))
	if res.Artifact == nil || w.cfg.Reader == nil {
		return fmt.Errorf("%w: its arguments cannot be kept in an artifact", bus.ErrTooLarge)
	}
	start := fmt.Sprintf("%s\n(This is only the start of %d bytes of arguments.)", tools.Excerpt(string(a.call.Args), maxShownArgs), len(a.call.Args))
	p.ArgsIn = res.Artifact.ID
	var err error
	p.Call.Args, err = bus.Encode(map[string]string{"arguments": start})
	return err
}

// readArgs reads what storeArgs stored.
func (w *Worker) readArgs(ctx context.Context, a *attempt) error {
	if w.cfg.Reader == nil {
		return errors.New("the arguments of the call are in an artifact, and this worker reads none")
	}
	return w.withStoreRetry(ctx, func() error {
		_, content, err := w.cfg.Reader.Open(ctx, a.key.Session, a.argsIn)
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }()
		if a.call.Args, err = io.ReadAll(io.NewSectionReader(content, 0, content.Size())); err != nil {
			return err
		}
		return a.checkDigest(a.call.Digest()) // any client can set the header
	})
}

// cancelledBy names who cancels the parked calls of a call that was cancelled.
const cancelledBy = "the call that made it"

// cancelMade cancels the calls that a call made which has ended. It was cancelled while a
// worker published it again, so that its record was gone.
func (w *Worker) cancelMade(ctx context.Context, a *attempt) error {
	if a.parkedNumber == 0 || a.raw != nil {
		return nil
	}
	return task.CancelAll(ctx, w.bus, task.ParkedMade(a.delivery, a.key.Session), cancelledBy)
}
