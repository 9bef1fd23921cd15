package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// offloadResult offloads res. It returns an error if the store keeps failing.
func (w *Worker) offloadResult(ctx context.Context, call tools.Call, def tools.Definition, res *tools.Result) (short *tools.Result, err error) {
	began := time.Now()
	err = w.withStoreRetry(ctx, func() (err error) {
		short, err = w.offloader.Result(ctx, call, def, res)
		return err
	})
	if err == nil {
		recordOffload(ctx, res, short, began)
	}
	return short, err
}

// publishResult publishes the result of the attempt, or the completion if the result
// is published.
func (w *Worker) publishResult(ctx context.Context, a *attempt, res *tools.Result) error {
	event := tools.NewResultEvent(a.call, res)
	event.Attempt, event.Worker, event.Digest = a.delivery.Attempt, w.cfg.Name, a.digest
	took := time.Since(a.started)
	event.StartedAt = a.resumed.Started // the waits of a run count for its user
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
	// Of the incoming headers, only the trace is forwarded.
	header := task.EventHeader(kind, a.key.Session, a.key.ID, w.source)
	tracing.Add(spanCtx, header)
	var first task.StoredResult
	won, err := w.publishFirst(spanCtx, bus.Message{Subject: subject, Body: body, Header: header}, func() (stored bool, err error) {
		first, stored, err = w.readResult(ctx, subject)
		return stored, err
	})
	span.End()
	if !won && err == nil {
		return w.resolveConflict(ctx, a, event, res, first)
	}
	if err != nil {
		return err
	}
	w.countResult(a, event.Outcome, took)
	if kind == task.CompletionKind {
		return nil
	}
	w.step("report")
	return w.report(spanCtx, a, event, body)
}

// report stores the report of a stored result, if it has one.
func (w *Worker) report(ctx context.Context, a *attempt, event tools.ResultEvent, body []byte) error {
	return task.Report{Key: a.key, Event: event, Body: body}.Store(ctx, w.bus, w.publishWithRetry)
}

// resolveConflict handles a result whose subject already holds the first one. That is
// this one (its acknowledgement was lost), that of another delivery, or that of a
// different call with the same id.
func (w *Worker) resolveConflict(ctx context.Context, a *attempt, event tools.ResultEvent, res *tools.Result, first task.StoredResult) error {
	if a.resultPublished {
		return nil // the first completion is stored, and it wins
	}
	if err := a.checkDigest(first.Digest); err != nil {
		return err
	}
	if err := w.report(ctx, a, first.ResultEvent, first.Body); err != nil { // the process that stored it may have died before
		return err
	}
	switch {
	case first.Worker == event.Worker && first.StartedAt.Equal(event.StartedAt):
		return nil
	case first.Outcome == tools.Async && event.Outcome != tools.Async:
		// An earlier delivery started the tool in the background and this one did
		// not, so this result is the completion.
		a.resultPublished = true
		return w.publishResult(ctx, a, res)
	}
	w.log.Info().Str("call", a.key.ID).Str("session", a.key.Session).Str("first", first.Worker).Msg("another worker published the result first")
	a.lostRace = first.Outcome != tools.Async
	return nil
}

// checkDigest rejects the call if a stored event with this digest belongs to
// another call with the same id, whose result this call must not get.
func (a *attempt) checkDigest(digest string) error {
	if err := task.CheckDigest(a.call, a.digest, digest); err != nil {
		return bus.Reject(tools.CodeMismatch, err)
	}
	return nil
}
