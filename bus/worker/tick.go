package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

const (
	// defaultCallTimeout applies to the call of a tick if its schedule sets none.
	defaultCallTimeout = 24 * time.Hour
	// maxTimeoutSeconds is a year. It keeps durations from overflowing.
	maxTimeoutSeconds = 365 * 24 * 3600
	// publishTime is how long a worker publishes the call of a run before it looks whether the run still is the
	// schedule's last one. A call that no stream has counts as lost if the record of its run is older than lostAfter:
	// a worker that still publishes it has renewed the record.
	publishTime, lostAfter = 2 * time.Second, 5 * time.Second
	// lastRunTTL is how long the run record of a schedule's only tick is kept:
	// longer than the tick, which the server may deliver again.
	lastRunTTL = 31 * 24 * time.Hour
)

// errNotLostYet is the verdict on a tick while the call of the run before is not stored, and may be in a moment. If
// that lasts, another worker waits until it can store the call.
var errNotLostYet = consume.RetryAfter(lostAfter, nil)

// ticker makes calls of the ticks of schedules.
type ticker struct {
	bus     *bus.Bus
	locator *task.Locator
	log     zerolog.Logger
}

// handle turns a tick into a call. The call's id derives from the schedule
// and the due time, so that a tick that is delivered twice is one call. A tick is
// skipped if the call of an earlier tick is still running.
func (t *ticker) handle(ctx context.Context, d *consume.Delivery) error {
	tokens := t.bus.Split(d.Subject)
	if len(tokens) != 3 || tokens[0] != "tick" {
		return nil // somebody has changed what the consumer delivers
	}
	body, err := tools.DecodeTick(d.Body)
	if err != nil {
		return consume.Reject(consume.CodeUndecodable, err)
	}
	kind, name, call := tokens[1], tokens[2], body.Call
	if newest, err := t.bus.Last(ctx, bus.Ticks, d.Subject); err != nil || newest.Sequence > d.Sequence {
		return err // after an outage, there may be two
	}
	if withdrawn, err := cron.WasWithdrawn(ctx, t.bus, d, kind, name); withdrawn || err != nil {
		return err
	}
	queue := cmp.Or(body.Queue, bus.DefaultQueue)
	if !tools.IsToken(queue) {
		return consume.Reject(consume.CodeUndecodable, fmt.Errorf("queue %.80q is not of the form %s", queue, tools.TokenForm))
	}
	log := t.log.With().Str("kind", kind).Str("schedule", name).Logger()

	var due time.Time
	call.ID, due = cron.CallID(d, kind, cmp.Or(body.Name, name))
	call.Session, call.Action = cmp.Or(call.Session, kind+"-"+name), cmp.Or(call.Action, kind)

	// Each tick runs once. The server publishes the last ticks again after a kill,
	// and after the clock was set back by hours. The calls stream may have removed the
	// call by then.
	stored, err := t.locator.Results.Read(ctx, tools.CallKey{Session: tools.Token(call.Session), ID: tools.Token(call.ID)})
	if len(stored) > 0 || err != nil {
		return err
	}
	record := bus.Message{Subject: t.bus.RunOf(kind, name)}
	if cron.IsOnlyTick(d) { // no later run replaces its record
		record.Header = nats.Header{jetstream.MsgTTLHeader: {lastRunTTL.String()}}
	}
	run, start, err := t.beginRun(ctx, record, body, cron.RunRecord{Call: call.ID, Session: call.Session, Due: due, Tick: d.Sequence})
	if err != nil && !(errors.Is(err, errNotLostYet) && d.Attempt > 1) {
		return err
	}
	if !start {
		log.Warn().Time("due", due).Str("running", tools.Token(run.Call)).Msg("tick skipped: the call of an earlier tick has no final result yet")
		return nil
	}
	call.ID, call.Session, call.Deadline, due = run.Call, run.Session, run.Deadline, run.Due
	data, err := bus.Encode(call)
	if err != nil {
		return consume.Reject(consume.CodeUndecodable, err)
	}
	m := bus.Message{
		Subject: t.bus.Call(queue, call.Tool, call.SessionToken(), call.IDToken()), Body: data, Header: nats.Header{},
		Timeout: bus.NoTimeout, WaitIfFull: true,
	}
	ctx, span := traceTick(ctx, d, kind, name, due, call)
	tracing.Add(ctx, m.Header)
	start, err = t.publish(ctx, m, record, body, run)
	endTick(span, err)
	switch {
	case err != nil && !errors.Is(err, bus.ErrSubjectExists): // an earlier delivery of the tick may have published it
		return err
	case !start:
		log.Warn().Time("due", due).Str("call", tools.Token(call.ID)).Msg("a later tick has taken the place of this one, whose call could not be stored")
	default:
		log.Info().Time("due", due).Str("call", tools.Token(call.ID)).Msg("tick became a call")
	}
	return nil
}

// publish stores the call of a run. While that fails, it keeps the record of the run young. start is false if a later
// run has taken its place.
func (t *ticker) publish(ctx context.Context, call, record bus.Message, tick tools.Tick, run cron.RunRecord) (start bool, err error) {
	for start = true; start && err == nil; {
		publishing, cancel := context.WithTimeout(ctx, publishTime)
		_, err = t.bus.Publish(publishing, call)
		waits := err != nil && publishing.Err() != nil && ctx.Err() == nil
		cancel()
		if !waits {
			break
		}
		if err = nil; !tick.Overlap {
			start, err = t.renew(ctx, record, tick, run)
		}
	}
	return start, err
}

// renew stores the record of a run again, whose call is not stored yet. It returns false if a later run has begun.
func (t *ticker) renew(ctx context.Context, record bus.Message, tick tools.Tick, run cron.RunRecord) (start bool, err error) {
	for {
		_, start, err = t.beginRun(ctx, record, tick, run)
		if !errors.Is(err, bus.ErrConflict) || tools.Sleep(ctx, publishTime/10) != nil {
			return start, err
		}
	}
}

// beginRun stores the record of the next run with the subject and header of record,
// and returns it. If the run must not start now, start is false and the returned
// record is that of the run that prevents it.
//
// A record and its call are in two streams, so a record proves no call: the worker that stored
// it may have died before it published the call, and a later tick has replaced the one that
// would have published it. Then beginRun returns the earlier run, which starts in the place of
// the next one. That is harmless if the other worker goes on, because both publish the same call. A run is
// given up only if nobody publishes its call any more: it must not begin after the next one.
func (t *ticker) beginRun(ctx context.Context, record bus.Message, tick tools.Tick, next cron.RunRecord) (_ cron.RunRecord, start bool, err error) {
	stored, err := t.bus.Last(ctx, bus.Ticks, record.Subject)
	if err != nil {
		return cron.RunRecord{}, false, err
	}
	var prior cron.RunRecord
	if stored.Sequence > 0 {
		if err := json.Unmarshal(stored.Body, &prior); err != nil {
			t.log.Warn().Err(err).Str("subject", record.Subject).Msg("cannot decode the last run record; replacing it")
		}
	}
	switch {
	case prior.Call == next.Call && prior.Session == next.Session: // a redelivery, or its call could not be stored yet
		if time.Now().After(prior.Deadline) { // it may have ended so long ago that its result is gone
			if ended, _, err := prior.Gone(ctx, t.bus, t.locator.CompleteSince); ended || err != nil {
				return prior, false, err
			}
		}
		next = prior
	case prior.Tick > next.Tick:
		return prior, false, nil
	default:
		next.Deadline = runDeadline(tick)
		if prior.Call == "" || tick.Overlap {
			break
		}
		ended, lost, err := t.runEnded(ctx, prior)
		switch {
		case err != nil || !ended && !lost:
			return prior, false, err
		case lost && time.Since(stored.At) < lostAfter:
			return prior, false, errNotLostYet
		}
		if lost && !prior.Restarted { // once: a call may also be lost because somebody removed it
			t.log.Warn().Str("call", tools.Token(prior.Call)).Msg("the call of an earlier tick is not stored; it starts now in the place of the next one")
			prior.Restarted, prior.Tick = true, next.Tick
			next = prior
		}
	}
	if record.Body, err = bus.Encode(next); err != nil {
		return cron.RunRecord{}, false, err
	}
	header := bus.ExpectRevision(stored.Sequence)
	maps.Copy(header, record.Header)
	record.Header = header
	_, err = t.bus.Publish(ctx, record)
	if errors.Is(err, bus.ErrConflict) {
		err = consume.RetryAfter(time.Second, err)
	}
	return next, err == nil, err
}

// runDeadline returns the deadline of a run that starts now.
func runDeadline(tick tools.Tick) time.Time {
	timeout := defaultCallTimeout
	if tick.TimeoutS > 0 {
		timeout = time.Duration(min(tick.TimeoutS, maxTimeoutSeconds)) * time.Second
	}
	deadline := time.Now().UTC().Add(timeout)
	if !tick.Deadline.IsZero() && tick.Deadline.Before(deadline) {
		return tick.Deadline
	}
	return deadline
}

// runEnded reports whether the call of a run has its final result, or its deadline
// has passed, and otherwise whether the call is lost: no stream has it.
func (t *ticker) runEnded(ctx context.Context, r cron.RunRecord) (ended, lost bool, err error) {
	if time.Now().After(r.Deadline) {
		return true, false, nil
	}
	stored, err := t.locator.Results.Read(ctx, r.Key())
	if err != nil || len(stored) > 0 {
		return task.Ended(stored), false, err
	}
	return r.Gone(ctx, t.bus, t.locator.CompleteSince)
}
