package task

import (
	"cmp"
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// cancelSource is the header ce-source of the results of cancelled calls.
var cancelSource = []string{"/stevedore/cancel"}

// Cancel cancels a call that is queued or running, also in the background, and
// returns its new state. It returns an error if the call has ended. If that is because it was
// cancelled, Cancel does the steps that the process which cancelled it may have failed to do.
func Cancel(ctx context.Context, b *bus.Bus, session, id, by string) (Task, error) {
	t, err := Get(ctx, b, session, id)
	if err != nil {
		return Task{}, err
	}
	if !t.EndedAt.IsZero() {
		if t.State == Cancelled {
			if err = reportCancelled(ctx, b, t); err == nil {
				err = clearCancelled(ctx, b, t)
			}
		}
		return t, cmp.Or(err, error(tools.Errorf(tools.CodeInvalidArguments, "task %q has already ended: %s", id, t.State)))
	}
	if err := RecordCancellation(ctx, b, session, id); err != nil {
		return Task{}, err
	}
	won, err := publishCancelled(ctx, b, t, by)
	if err == nil && !won && !t.Async { // perhaps by an async result, which leaves the completion free
		if t, err = Get(ctx, b, session, id); err == nil && t.Async && t.EndedAt.IsZero() {
			_, err = publishCancelled(ctx, b, t, by)
		}
	}
	if err == nil {
		err = clearCancelled(ctx, b, t)
	}
	if err != nil {
		return Task{}, err
	}
	return Get(ctx, b, session, id)
}

// reportCancelled stores the report of a call that another process cancelled: no worker does when its message is removed.
func reportCancelled(ctx context.Context, b *bus.Bus, t Task) error {
	stored, err := ReadResults(ctx, b, t.Session, t.ID)
	if err != nil || len(stored) == 0 {
		return err
	}
	results := &Results{bus: b, log: b.Config().Log, failsFull: true}
	return results.Report(ctx, tools.CallKey{Session: t.Session, ID: t.ID}, stored[0])
}

// clearCancelled removes what a cancelled call leaves: the calls that it made, its wait, and its messages that no worker has.
func clearCancelled(ctx context.Context, b *bus.Bus, t Task) error {
	record, err := ReadRecord(ctx, b, tools.CallKey{Session: t.Session, ID: t.ID})
	if err == nil {
		err = CancelMade(ctx, b, record.Made)
	}
	if err == nil && record.Parked != nil {
		err = unpark(ctx, b, *record.Parked)
	}
	if err == nil && (t.StartedAt.IsZero() || record.Ahead == 0) { // the worker that runs it ahead has its message
		err = removeQueued(ctx, b, t.Session, t.ID)
	}
	return err
}

// IsOver reports whether Cancel failed because the call has ended or is gone.
func IsOver(err error) bool {
	code := tools.CodeOf(err)
	return code == tools.CodeInvalidArguments || code == tools.CodeNotFound
}

// CancelOpen is Cancel for a call that may have ended, or may be gone.
func CancelOpen(ctx context.Context, b *bus.Bus, k tools.CallKey, by string) error {
	if _, err := Cancel(ctx, b, k.Session, k.ID, by); !IsOver(err) {
		return err
	}
	return nil
}

// removeQueued removes the messages of a cancelled call that no worker has. A worker would drop
// them, but a queue may have none, and the call would seem to wait.
func removeQueued(ctx context.Context, b *bus.Bus, session, id string) error {
	queued, err := unsettled(ctx, b, session, id)
	for _, c := range queued {
		if err == nil && !c.delivered {
			err = b.Delete(ctx, bus.Calls, c.sequence)
		}
	}
	return err
}

// cancelTimeout limits the publish of the result of a cancelled call.
const cancelTimeout = 30 * time.Second

// publishCancelled publishes the result "cancelled" of a call, or its completion if it has an
// async result. The first one wins, so this one is final even if the tool still runs. won is
// false if another one is stored.
func publishCancelled(ctx context.Context, b *bus.Bus, t Task, by string) (won bool, err error) {
	call := t.call
	if call.ID == "" {
		call = tools.Call{ID: t.ID, Session: t.Session, Tool: t.Tool}
	}
	event := tools.NewResultEvent(call, tools.Failure(tools.Errorf(tools.CodeCancelled, "the call was cancelled by %s", by)))
	event.StartedAt, event.Worker = time.Now().UTC(), by
	if !t.StartedAt.IsZero() {
		event.StartedAt, event.DurationMS = t.StartedAt, time.Since(t.StartedAt).Milliseconds()
	}
	kind, k := ResultKind, tools.CallKey{Session: t.Session, ID: t.ID}
	if t.Async {
		kind = CompletionKind
	}
	m, err := EventMessage(b, kind, k, event, cancelSource)
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithTimeout(ctx, cancelTimeout)
	defer stop()
	results := &Results{bus: b, log: b.Config().Log, failsFull: true} // who cancels learns it
	_, won, err = results.Publish(ctx, m)
	if won && kind == ResultKind {
		err = results.Report(ctx, k, StoredResult{ResultEvent: event, Body: m.Body})
	}
	return won, err
}

// CancelMade cancels those of the calls that a cancelled call made which have not ended.
func CancelMade(ctx context.Context, b *bus.Bus, made []tools.CallKey) error {
	for _, k := range made {
		stored, err := ReadResults(ctx, b, k.Session, k.ID)
		if err != nil {
			return err
		}
		if len(stored) > 0 && !Ended(stored) { // it goes on in the background; the call waits for it no more
			continue
		}
		if err := CancelOpen(ctx, b, k, "the call that made it"); err != nil {
			return err
		}
	}
	return nil
}

// RecordCancellation records that a call is cancelled, without a result. A worker
// that runs the call stops it, and no worker starts it later. It also publishes to
// the subject Cancel, for remote tools. The two tokens name the call.
func RecordCancellation(ctx context.Context, b *bus.Bus, session, call string) error {
	_, err := ChangeRecord(ctx, b, tools.CallKey{Session: session, ID: call}, func(r *Record) error {
		if !r.Cancelled.IsZero() {
			return ErrUnchanged
		}
		r.Cancelled = time.Now().UTC()
		return nil
	})
	if err != nil {
		return err
	}
	_ = b.Conn().Publish(b.Cancel(session, call), nil) // only a hint; the record is stored
	return nil
}
