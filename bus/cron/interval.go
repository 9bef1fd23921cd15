package cron

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stevedore-bus/stevedore/bus"
)

// A server that was stopped uncleanly has forgotten when its intervals are due, and counts
// them from its start. So this package compares: if a tick does not come within lateAfter,
// it publishes the tick, and it writes the schedule again at the next due time, from which
// the server then counts.

const (
	// phaseHeader on a schedule is the due time from which its interval counts, if that is
	// not the time of the schedule.
	phaseHeader = "Stevedore-Phase"
	// dueHeader is the due time of a tick that this package published.
	dueHeader = "Stevedore-Due"
	// lateAfter is how long the server may take to publish a tick.
	lateAfter = 3 * time.Second
)

type scheduleKey struct{ kind, name string }

// awaited says when to look for a tick, and which was the last before.
type awaited struct {
	at   time.Time
	tick uint64
}

// next returns the time until the next tick is to be looked for, at most limit.
func (k *timekeeper) next(limit time.Duration) time.Duration {
	for _, a := range k.awaited {
		limit = min(limit, max(0, time.Until(a.at)))
	}
	return limit
}

// makeUp looks for the ticks that are due, and makes up those that are late.
func (k *timekeeper) makeUp(ctx context.Context) error {
	var failed error
	for key, a := range k.awaited {
		now := time.Now()
		if now.Before(a.at) {
			continue
		}
		again, err := k.makeUpTick(ctx, key, a.tick, now)
		switch {
		case err != nil:
			failed, again = err, now.Add(lateAfter)
		case again.IsZero():
			delete(k.awaited, key)
			continue
		}
		k.awaited[key] = awaited{again, a.tick}
	}
	return failed
}

// makeUpTick publishes the tick that the server should have published, if it did not, and returns
// when to look again. That is zero if the server has published a tick after the one with the
// sequence before, so it has not forgotten when the next is due.
func (k *timekeeper) makeUpTick(ctx context.Context, key scheduleKey, before uint64, now time.Time) (again time.Time, err error) {
	e, ok, err := k.jobs.read(ctx, key.kind, key.name)
	if err != nil || !ok || e.Disabled || e.Every == 0 || e.tick.Sequence > before && e.tick.Header.Get(jetstream.SchedulerHeader) != "" {
		return time.Time{}, err
	}
	from, err := k.jobs.countsFrom(ctx, e)
	if err != nil {
		return time.Time{}, err
	}
	expected := from.Add(e.Every)
	look := expected.Add(lateAfter)
	if e.ChangedAt.Sub(from) >= time.Second { // the server certainly comes later
		look = expected
	}
	if now.Before(look) {
		return look, nil
	}
	due := from.Add(now.Sub(from) / e.Every * e.Every)
	if e.ttl > 0 && now.Sub(due) >= e.ttl {
		return time.Time{}, nil // the server may have published it, and it has expired
	}

	// The schedule comes first: after a death in between, the tick is still missing.
	err = k.restart(ctx, e, nats.Header{phaseHeader: {from.UTC().Format(time.RFC3339Nano)}})
	if err == nil {
		pattern, _ := e.pattern() // with which it was written just now
		err = k.jobs.publishTick(ctx, e, nats.Header{patternHeader: {pattern}, dueHeader: {due.UTC().Format(time.RFC3339Nano)}})
	}
	if errors.Is(err, bus.ErrConflict) { // another process did it, or the server did
		return now.Add(lateAfter), nil
	}
	if err != nil {
		return time.Time{}, err
	}
	k.log.Info().Str("kind", key.kind).Str("schedule", key.name).Time("due", due).Msg("the server has not published a tick in time; it is made up")
	return due.Add(e.Every), nil
}

// countsFrom returns the due time from which the interval of e counts.
func (js *Jobs) countsFrom(ctx context.Context, e Entry) (time.Time, error) {
	due, _ := tickTimes(e.tick.Header.Get)
	if e.tick.Sequence == 0 { // it may have expired; the record of its run has not
		record, err := js.bus.Last(ctx, bus.Ticks, js.bus.RunOf(e.kind(), e.stored))
		if err != nil {
			return time.Time{}, err
		}
		var run RunRecord
		_ = json.Unmarshal(record.Body, &run) // without a record, the interval counts from its start
		due = run.Due
	}
	if e.tick.Sequence > 0 && e.tick.Sequence < e.revision || due.Before(e.from) {
		return e.from, nil
	}
	return due, nil
}
