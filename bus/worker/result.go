package worker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// offloadResult offloads res. If the store keeps failing, it returns an error
// result with as much of the content as fits.
func (w *Worker) offloadResult(ctx context.Context, j *job, res *tools.Result) *tools.Result {
	var short *tools.Result
	err := w.withStoreRetry(ctx, func() (err error) {
		short, err = w.offloader.Result(ctx, j.call, j.def, res)
		return err
	})
	if err != nil {
		w.log.Error().Err(err).Str("call", j.key.id).Str("session", j.key.session).Msg("cannot store the result; publishing the content that fits")
		return w.offloader.Fallback(j.call, res, err)
	}
	return short
}

// publishResult publishes the result of the job, or the completion if the result
// is published.
func (w *Worker) publishResult(ctx context.Context, j *job, res *tools.Result) error {
	event := tools.NewResultEvent(j.call, res)
	event.Attempt, event.Worker, event.Digest = j.delivery.Attempt, w.cfg.Name, j.digest
	took := time.Since(j.started)
	event.StartedAt, event.DurationMS = j.started, took.Milliseconds()
	body, err := bus.Encode(event)
	if err != nil {
		return err
	}
	kind, subject := task.ResultKind, w.bus.Result(j.key.session, j.key.id)
	if j.resultPublished {
		kind, subject = task.CompletionKind, w.bus.Completion(j.key.session, j.key.id)
	}
	err = w.publishWithRetry(ctx, bus.Message{Subject: subject, Body: body, Header: w.headers(j, kind)})
	if errors.Is(err, bus.ErrSubjectExists) {
		return w.resolveConflict(ctx, j, event, res)
	}
	if err == nil {
		w.counters.add(j.queue, event.Outcome, took)
	}
	return err
}

// resolveConflict handles a result whose subject already holds one. The stored
// result is this one (its acknowledgement was lost), that of another delivery, or
// that of a different call with the same id.
func (w *Worker) resolveConflict(ctx context.Context, j *job, event tools.ResultEvent, res *tools.Result) error {
	if j.resultPublished {
		return nil // the first completion is stored, and it wins
	}
	stored, err := w.readResults(ctx, j.key)
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
	if first.Outcome == tools.Async && event.Outcome != tools.Async && j.checkDigest(first.Digest) == nil {
		// An earlier delivery started the tool in the background and this one did
		// not, so this result is the completion.
		j.resultPublished = true
		return w.publishResult(ctx, j, res)
	}
	w.log.Info().Str("call", j.key.id).Str("session", j.key.session).Str("first", first.Worker).Msg("another worker published the result first")
	j.lostRace = first.Outcome != tools.Async
	return j.checkDigest(first.Digest)
}

// publishFinal publishes the final result of a call that no worker will finish. If
// the tool may be running in the background, the final result is a completion: the
// submitter and the notifier expect it there.
func (w *Worker) publishFinal(ctx context.Context, j *job, res *tools.Result) error {
	if ended, err := w.hasFinalResult(ctx, j); ended || err != nil {
		return err
	}
	if !j.resultPublished && j.raw == nil && j.invalid == nil && w.registry.CallsBack(j.call.Tool) {
		err := w.publishResult(ctx, j, tools.AsyncResult("The tool may have been started in the background. The completion of this call will report its outcome."))
		if err != nil {
			return err
		}
		// Another worker's result may have won.
		if ended, err := w.hasFinalResult(ctx, j); ended || err != nil {
			return err
		}
	}
	return w.publishResult(ctx, j, res)
}

// headers returns the headers of a result. Of the incoming headers, only a
// well-formed traceparent is forwarded.
func (w *Worker) headers(j *job, kind string) nats.Header {
	h := task.EventHeader(kind, j.key.session, j.key.id, w.source)
	if tp := j.delivery.Traceparent(); tp != "" {
		h["traceparent"] = []string{tp}
	}
	return h
}
