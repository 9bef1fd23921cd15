package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
)

// On the night when clocks go forward, the server skips a job at 02:30, because that time
// does not exist. Like cron, runSkipped runs such a job once, when the clocks have gone
// forward.

const (
	// skippedHeader on a tick names the time when the clocks went forward.
	skippedHeader = "Stevedore-Skipped"
	// skippedInterval is the time between checks: everywhere, clocks go forward at the
	// start of a half hour in UTC.
	skippedInterval = 30 * time.Minute
	// skippedFor is how long a job can still run later, after a restart.
	skippedFor = time.Hour
)

// runSkipped publishes a tick for each schedule that was due only in an hour that the clocks
// skipped before now. Any number of processes may call it.
func (st *Store) runSkipped(ctx context.Context, now time.Time, log zerolog.Logger) error {
	for s, err := range st.List(ctx, bus.Cron) {
		if err != nil {
			return err
		}
		at, ok := s.skipped(now.Add(-skippedFor), now)
		if !ok || s.Disabled || s.Since.After(at) {
			continue
		}
		subject := st.bus.Tick(s.Kind, s.Name)
		last, err := st.last(ctx, subject)
		if err != nil {
			return err
		}
		if last.Header.Get(skippedHeader) == at.UTC().Format(time.RFC3339) {
			continue // another check did it
		}
		header := nats.Header{skippedHeader: {at.UTC().Format(time.RFC3339)}}
		if s.TTL > 0 {
			header.Set(jetstream.MsgTTLHeader, s.TTL.String())
		}
		err = st.publishAt(ctx, bus.Message{Subject: subject, Body: s.Body, Header: header}, last.Sequence)
		if err != nil && !errors.Is(err, bus.ErrConflict) { // after a conflict, another process did it
			return err
		}
		log.Info().Str("schedule", s.Name).Time("at", at).Msg("a schedule was due in the hour that the clocks skipped; it runs now")
	}
	return nil
}

// skipped returns the time between two others at which the clocks go forward in the zone of a
// cron expression, if it is due in the hour that they skip and not in the one that follows.
func (s Schedule) skipped(from, to time.Time) (at time.Time, ok bool) {
	times, err := s.dueTimes()
	if s.Cron == "" || err != nil {
		return at, false
	}
	_, at = from.In(times.zone).ZoneBounds()
	if at.IsZero() || at.After(to) {
		return at, false
	}
	_, before := at.Add(-time.Second).Zone()
	_, after := at.Zone()
	end := at.Add(time.Duration(after-before) * time.Second)
	due := times.times.Next(at.Add(-time.Second).In(time.FixedZone("", before))) // as if the clocks had not gone forward
	return at, !due.IsZero() && due.Before(end) && !times.after(at.Add(-time.Second)).Before(end)
}
