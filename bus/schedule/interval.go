package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

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

// intervals are the schedules with intervals whose next tick is awaited.
type intervals struct {
	store *Store
	log   zerolog.Logger
	look  map[scheduleKey]awaited
}

type scheduleKey struct{ kind, name string }

// awaited says when to look for a tick, and which was the last before.
type awaited struct {
	at   time.Time
	tick uint64
}

// await starts to look for the next tick of each interval.
func (iv *intervals) await(ctx context.Context) error {
	clear(iv.look)
	at := time.Now().Add(lateAfter)
	for s, err := range iv.store.List(ctx, "") {
		if err != nil {
			return err
		}
		if s.Every > 0 && s.ours && !s.Disabled {
			iv.look[scheduleKey{s.Kind, s.Name}] = awaited{at, s.tick}
		}
	}
	return nil
}

// next returns the time until the next tick is to be looked for, at most limit.
func (iv *intervals) next(limit time.Duration) time.Duration {
	for _, a := range iv.look {
		limit = min(limit, max(0, time.Until(a.at)))
	}
	return limit
}

// run looks for the ticks that are due.
func (iv *intervals) run(ctx context.Context) error {
	var failed error
	for k, a := range iv.look {
		now := time.Now()
		if now.Before(a.at) {
			continue
		}
		again, err := iv.store.makeUp(ctx, k, a.tick, now, iv.log)
		switch {
		case err != nil:
			failed, again = err, now.Add(lateAfter)
		case again.IsZero():
			delete(iv.look, k)
			continue
		}
		iv.look[k] = awaited{again, a.tick}
	}
	return failed
}

// makeUp publishes the tick that the server should have published, if it did not, and returns
// when to look again. That is zero if the server has published a tick after the one with the
// sequence before, so it has not forgotten when the next is due.
func (st *Store) makeUp(ctx context.Context, k scheduleKey, before uint64, now time.Time, log zerolog.Logger) (again time.Time, err error) {
	s, ok, err := st.Get(ctx, k.kind, k.name)
	if err != nil || !ok || s.Disabled || s.Every == 0 {
		return time.Time{}, err
	}
	tick, err := st.last(ctx, st.bus.Tick(k.kind, k.name))
	if err != nil || tick.Sequence > before && tick.Header.Get(jetstream.SchedulerHeader) != "" {
		return time.Time{}, err
	}
	from, err := st.countsFrom(ctx, s, tick)
	if err != nil {
		return time.Time{}, err
	}
	expected := from.Add(s.Every)
	look := expected.Add(lateAfter)
	if s.Since.After(from) && s.Since.Sub(from) >= time.Second { // the server certainly comes later
		look = expected
	}
	if now.Before(look) {
		return look, nil
	}
	due := from.Add(now.Sub(from) / s.Every * s.Every)
	if s.TTL > 0 && now.Sub(due) >= s.TTL {
		return time.Time{}, nil // the server may have published it, and it has expired
	}

	// The schedule comes first: after a death in between, the tick is still missing.
	m, err := st.message(s.Schedule)
	if err != nil {
		return time.Time{}, err
	}
	m.Header.Set(phaseHeader, from.UTC().Format(time.RFC3339Nano))
	err = st.publishAt(ctx, m, s.Revision)
	if err == nil {
		header := nats.Header{patternHeader: m.Header[patternHeader], dueHeader: {due.UTC().Format(time.RFC3339Nano)}}
		if s.TTL > 0 {
			header.Set(jetstream.MsgTTLHeader, s.TTL.String())
		}
		err = st.publishAt(ctx, bus.Message{Subject: st.bus.Tick(k.kind, k.name), Body: s.Body, Header: header}, tick.Sequence)
	}
	if errors.Is(err, bus.ErrConflict) { // another process did it, or the server did
		return now.Add(lateAfter), nil
	}
	if err != nil {
		return time.Time{}, err
	}
	log.Info().Str("kind", k.kind).Str("schedule", k.name).Time("due", due).Msg("the server has not published a tick in time; it is made up")
	return due.Add(s.Every), nil
}

// countsFrom returns the due time from which the interval of s counts. tick is the newest one.
func (st *Store) countsFrom(ctx context.Context, s Status, tick bus.Stored) (time.Time, error) {
	due, _ := tickTimes(tick.Header.Get)
	if tick.Sequence == 0 { // it may have expired; the record of its run has not
		record, err := st.last(ctx, st.bus.RunOf(s.Kind, s.Name))
		if err != nil {
			return time.Time{}, err
		}
		var run Run
		_ = json.Unmarshal(record.Body, &run) // without a record, the interval counts from its start
		due = run.Due
	}
	if from := s.start(); tick.Sequence > 0 && tick.Sequence < s.Revision || due.Before(from) {
		return from, nil
	}
	return due, nil
}
