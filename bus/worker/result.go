package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// results stores what calls return.
type results struct {
	bus       *bus.Bus
	artifacts *artifacts
	locator   *task.Locator
	worker    string   // its name
	source    []string // the header ce-source of its events
	counters  *counters
	slotless  slotless
	step      func(string)
	log       zerolog.Logger
}

// maxSlotless limits the calls that need no slot: a worker publishes their results, or asks
// others for their tools.
const maxSlotless = 512

// slotless counts the calls that released their slot.
type slotless struct{ n atomic.Int64 }

// release releases the slot of a delivery that needs none until done is called, unless there are
// too many.
func (s *slotless) release(d *consume.Delivery) (done func()) {
	if s.n.Add(1) <= maxSlotless {
		d.ReleaseSlot()
	}
	return func() { s.n.Add(-1) }
}

// store does steps 7 and 8 with a result or a completion, and closes it. If it returns nil,
// handle can acknowledge the call.
func (r *results) store(ctx context.Context, a *attempt, res *tools.Result) error {
	defer res.Close()

	// 7. Offload. The content is durable before the result that refers to it.
	r.step("offload")
	short, err := r.artifacts.Result(ctx, holdAfter, a.Call, a.Tool, res)
	if err != nil && !isStoreFinal(err) {
		if r.hold(ctx, a, res, err) {
			return nil
		}
		short, err = r.artifacts.Result(ctx, storeTimeout, a.Call, a.Tool, res)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.log.Error().Err(err).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("cannot store the result; publishing the content that fits")
		short = r.artifacts.store.Fallback(a.Call, res, err)
	}

	// 8. Publish the result. The first result of a call wins. If the server syncs, it
	// stores many results together, so this uses no slot.
	r.step("publish")
	defer r.slotless.release(a.Delivery)()
	err = r.publish(ctx, a, short)
	if errors.Is(err, bus.ErrTooLarge) {
		err = r.publish(ctx, a, r.artifacts.store.Fallback(a.Call, res, err))
	}
	if err != nil {
		return err
	}

	// 9. Acknowledge. If the acknowledgement is lost, step 4 ends the redelivery.
	r.step("ack")
	return nil
}

// publish publishes the result of the attempt, or the completion if the result is published.
func (r *results) publish(ctx context.Context, a *attempt, res *tools.Result) error {
	event := tools.NewResultEvent(a.Call, res)
	event.Attempt, event.Worker, event.Digest = a.Attempt, r.worker, a.Digest
	took := time.Since(a.Started)
	event.StartedAt = a.Resumed.Started // the waits of a run count for its user
	event.DurationMS = time.Since(event.StartedAt).Milliseconds()
	if event.Error != nil && event.Error.Code == tools.CodeGivenUp {
		event.Error.CallSequence = a.Sequence
	}
	kind := task.ResultKind
	if a.resultPublished {
		kind = task.CompletionKind
	}
	m, err := task.EventMessage(r.bus, kind, a.Key, event, r.source)
	if err != nil {
		return err
	}
	spanCtx, span := tracePublish(ctx, a, kind, event, m.Header)
	first, won, err := r.locator.Results.Publish(spanCtx, m)
	span.End()
	if err != nil {
		return err
	}
	if !won {
		return r.resolveConflict(ctx, a, event, res, first)
	}
	r.counters.countResult(a, event.Outcome, took)
	if kind == task.CompletionKind {
		return nil
	}
	r.step("report")
	return r.locator.Results.Report(spanCtx, a.Key, task.StoredResult{ResultEvent: event, Body: m.Body})
}

// resolveConflict handles a result whose subject already holds the first one. That is
// this one (its acknowledgement was lost), that of another delivery, or that of a
// different call with the same id.
func (r *results) resolveConflict(ctx context.Context, a *attempt, event tools.ResultEvent, res *tools.Result, first task.StoredResult) error {
	switch dropped, err := r.locator.DropRetried(ctx, a.Key, first); {
	case err != nil:
		return err
	case dropped:
		return r.publish(ctx, a, res)
	}
	if a.resultPublished {
		return nil // the first completion is stored, and it wins
	}
	if err := a.Check(first.Digest); err != nil {
		return err
	}
	if err := r.locator.Results.Report(ctx, a.Key, first); err != nil { // the process that stored it may have died before
		return err
	}
	switch {
	case first.Worker == event.Worker && first.StartedAt.Equal(event.StartedAt):
		return nil
	case first.Outcome == tools.Async && event.Outcome != tools.Async:
		// An earlier delivery started the tool in the background and this one did
		// not, so this result is the completion.
		a.resultPublished = true
		return r.publish(ctx, a, res)
	}
	r.log.Info().Str("call", a.Key.ID).Str("session", a.Key.Session).Str("first", first.Worker).Msg("another worker published the result first")
	a.lostRace = first.Outcome != tools.Async
	return nil
}

// found notes the events of the attempt's call that are stored. The process that stored them may
// have died before it stored their report.
func (r *results) found(ctx context.Context, a *attempt, stored []task.StoredResult) error {
	if len(stored) == 0 {
		return nil
	}
	a.resultPublished = a.resultPublished || stored[0].Outcome == tools.Async
	return r.locator.Results.Report(ctx, a.Key, stored[0])
}

// end publishes the final result of a call that no worker will finish. If the tool may be
// running in the background, the final result is a completion: the submitter and the notifier
// expect it there.
func (r *results) end(ctx context.Context, a *attempt, res *tools.Result) error {
	if ended, err := r.hasEnded(ctx, a); ended || err != nil {
		return err
	}
	if !a.resultPublished && a.Raw == nil && a.Invalid == nil && a.CallsBack {
		err := r.publish(ctx, a, tools.AsyncResult("The tool may have been started in the background. The completion of this call will report its outcome."))
		if err != nil {
			return err
		}
		// Another worker's result may have won.
		if ended, err := r.hasEnded(ctx, a); ended || err != nil {
			return err
		}
	}
	return r.publish(ctx, a, res)
}

// hasEnded reports whether the final result or the completion of the call is stored.
func (r *results) hasEnded(ctx context.Context, a *attempt) (bool, error) {
	stored, ended, err := r.locator.Stored(ctx, a.Delivered)
	if err == nil {
		err = r.found(ctx, a, stored)
	}
	return ended, err
}
