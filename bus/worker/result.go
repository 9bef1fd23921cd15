package worker

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// answer stores what is big of res, publishes what is light, and so ends the
// call (or its async job). It consumes res.
func (w *Worker) answer(ctx context.Context, j *job, res *tools.Result) error {
	defer res.Close()
	w.cfg.OnStep(StepOffload)
	light := w.lighten(ctx, j, res)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.cfg.OnStep(StepPublish)
	err := w.publish(ctx, j, light)
	if errors.Is(err, bus.ErrTooLarge) {
		err = w.publish(ctx, j, w.offloader.Fallback(j.call, res, err))
	}
	if err != nil {
		return err
	}
	w.cfg.OnStep(StepAck)
	return nil
}

// lighten offloads res. If that fails for good, the model gets what fits, and an
// honest word.
func (w *Worker) lighten(ctx context.Context, j *job, res *tools.Result) *tools.Result {
	var light *tools.Result
	err := w.store(ctx, func() (err error) {
		light, err = w.offloader.Result(ctx, j.call, j.def, res)
		return err
	})
	if err != nil {
		w.log.Error().Err(err).Str("call", j.key.id).Str("session", j.key.session).Msg("the result is not stored; the model gets what fits")
		return w.offloader.Fallback(j.call, res, err)
	}
	return light
}

// publish puts the event on the call's subject, where the first one wins.
func (w *Worker) publish(ctx context.Context, j *job, light *tools.Result) error {
	event := tools.NewResultEvent(j.call, light)
	event.Attempt, event.Worker, event.Digest = j.delivery.Attempt, w.cfg.Name, j.digest
	took := time.Since(j.started)
	event.StartedAt, event.DurationMS = j.started, took.Milliseconds()
	body, err := bus.Encode(event)
	if err != nil {
		return err
	}
	kind, subject := "result", w.bus.Result(j.key.session, j.key.id)
	if j.resultOut {
		kind, subject = "completion", w.bus.Completion(j.key.session, j.key.id)
	}
	err = w.persist(ctx, bus.Message{Subject: subject, Body: body, Header: w.headers(j, kind)})
	if errors.Is(err, bus.ErrTaken) {
		return w.second(ctx, j, event, light)
	}
	if err == nil {
		w.counters.count(j.queue, event.Outcome, took)
	}
	return err
}

// second settles the case that a result stands already: it may be this very one
// whose acknowledgement was lost, or that of another delivery, or the answer to
// a different call under the same id.
func (w *Worker) second(ctx context.Context, j *job, event tools.ResultEvent, light *tools.Result) error {
	if j.resultOut {
		return nil // the first completion won
	}
	stored, err := w.readResults(ctx, j.key)
	if err != nil {
		return err
	}
	if len(stored) == 0 { // it may just have aged out
		return errors.New("the result was refused for an earlier one that is not there")
	}
	prior := stored[0]
	if prior.Worker == event.Worker && prior.StartedAt.Equal(event.StartedAt) {
		return nil
	}
	if prior.Outcome == tools.Async && event.Outcome != tools.Async && j.sameAs(prior.Digest) == nil {
		// The job was started before and did not start this time, so this is
		// how it ended.
		j.resultOut = true
		return w.publish(ctx, j, light)
	}
	w.log.Info().Str("call", j.key.id).Str("session", j.key.session).Str("first", prior.Worker).Msg("another result was first")
	j.beaten = prior.Outcome != tools.Async
	return j.sameAs(prior.Digest)
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// What stands in the headers of every event is shared by all of them.
var (
	ceVersion = []string{"1.0"}
	ceContent = []string{"application/json"}
	ceTypes   = map[string][]string{"result": {"stevedore.result"}, "completion": {"stevedore.completion"}}
)

// headers describes the event as CloudEvents 1.0 does in its NATS binding, with
// the attributes that it requires: time and subject are the message's own.
// Incoming headers stay behind, but a well-formed traceparent.
func (w *Worker) headers(j *job, kind string) nats.Header {
	h := nats.Header{
		"ce-specversion": ceVersion,
		"ce-type":        ceTypes[kind],
		"ce-source":      w.source,
		"ce-id":          {kind + "." + j.key.session + "." + j.key.id},
		"content-type":   ceContent,
	}
	if tp := j.delivery.Header("traceparent"); tp != "" && traceparent.MatchString(tp) {
		h["traceparent"] = []string{tp}
	}
	return h
}
