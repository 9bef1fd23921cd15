package worker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// offloadResult offloads res. If the store keeps failing, it returns an error
// result with as much of the content as fits.
func (w *Worker) offloadResult(ctx context.Context, a *attempt, res *tools.Result) *tools.Result {
	var short *tools.Result
	began := time.Now()
	err := w.withStoreRetry(ctx, func() (err error) {
		short, err = w.offloader.Result(ctx, a.call, a.def, res)
		return err
	})
	if err != nil {
		w.log.Error().Err(err).Str("call", a.key.ID).Str("session", a.key.Session).Msg("cannot store the result; publishing the content that fits")
		return w.offloader.Fallback(a.call, res, err)
	}
	countOffload(res, short, time.Since(began))
	traceOffload(ctx, res, short, began)
	return short
}

// publishResult publishes the result of the attempt, or the completion if the result
// is published.
func (w *Worker) publishResult(ctx context.Context, a *attempt, res *tools.Result) error {
	event := tools.NewResultEvent(a.call, res)
	event.Attempt, event.Worker, event.Digest = a.delivery.Attempt, w.cfg.Name, a.digest
	took := time.Since(a.started)
	event.StartedAt = task.ParkedStarted(a.delivery, a.started) // the waits of a run count for its user
	event.DurationMS = time.Since(event.StartedAt).Milliseconds()
	body, err := bus.Encode(event)
	if err != nil {
		return err
	}
	kind, subject := task.ResultKind, w.bus.Result(a.key.Session, a.key.ID)
	if a.resultPublished {
		kind, subject = task.CompletionKind, w.bus.Completion(a.key.Session, a.key.ID)
	}
	spanCtx, span := w.tracePublish(ctx, a, kind, event)
	stored, err := w.publishFirst(spanCtx, bus.Message{Subject: subject, Body: body, Header: w.headers(spanCtx, a, kind)})
	span.End()
	if stored && err == nil {
		return w.resolveConflict(ctx, a, event, res)
	}
	if err == nil {
		w.countResult(a, event.Outcome, took)
	}
	return err
}

// publishFirst publishes the only event of a subject. stored is true if the subject already
// holds one.
func (w *Worker) publishFirst(ctx context.Context, m bus.Message) (stored bool, err error) {
	for range maxForged {
		if err = w.publishWithRetry(ctx, m); !errors.Is(err, bus.ErrSubjectExists) {
			return false, err
		}
		if stored, err = w.isStored(ctx, m.Subject); stored || err != nil {
			return stored, err
		}
	}
	return false, errors.New("the server rejected the event because of an earlier one, which does not exist")
}

// resolveConflict handles a result whose subject already holds one. The stored
// result is this one (its acknowledgement was lost), that of another delivery, or
// that of a different call with the same id.
func (w *Worker) resolveConflict(ctx context.Context, a *attempt, event tools.ResultEvent, res *tools.Result) error {
	if a.resultPublished {
		return nil // the first completion is stored, and it wins
	}
	stored, err := w.readResults(ctx, a.key)
	if err != nil {
		return err
	}
	if len(stored) == 0 { // it may have expired just now
		return errors.New("the server rejected the result because of an earlier one, which does not exist")
	}
	first := stored[0]
	if first.Worker == event.Worker && first.StartedAt.Equal(event.StartedAt) {
		return nil
	}
	if first.Outcome == tools.Async && event.Outcome != tools.Async && a.checkDigest(first.Digest) == nil {
		// An earlier delivery started the tool in the background and this one did
		// not, so this result is the completion.
		a.resultPublished = true
		return w.publishResult(ctx, a, res)
	}
	w.log.Info().Str("call", a.key.ID).Str("session", a.key.Session).Str("first", first.Worker).Msg("another worker published the result first")
	a.lostRace = first.Outcome != tools.Async
	return a.checkDigest(first.Digest)
}

// headers returns the headers of a result. Of the incoming headers, only the trace is
// forwarded.
func (w *Worker) headers(ctx context.Context, a *attempt, kind string) nats.Header {
	h := task.EventHeader(kind, a.key.Session, a.key.ID, w.source)
	tracing.Add(ctx, h)
	return h
}
