package cron

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

// runSkipped publishes a tick of a schedule that was due only in an hour that the clocks skipped
// before now. Any number of processes may call it.
func (js *Jobs) runSkipped(ctx context.Context, e Entry, now time.Time, log zerolog.Logger) error {
	at, ok := e.skipped(now.Add(-skippedFor), now)
	text := at.UTC().Format(time.RFC3339)
	if !ok || e.Disabled || e.ChangedAt.After(at) || e.tick.Header.Get(skippedHeader) == text { // another check did it
		return nil
	}
	err := js.publishTick(ctx, e, nats.Header{skippedHeader: {text}})
	if errors.Is(err, bus.ErrConflict) { // another process did it
		return nil
	}
	if err == nil {
		log.Info().Str("schedule", e.stored).Time("at", at).Msg("a schedule was due in the hour that the clocks skipped; it runs now")
	}
	return err
}

// publishTick publishes a tick if the newest one is that which e knows.
func (js *Jobs) publishTick(ctx context.Context, e Entry, header nats.Header) error {
	if e.ttl > 0 {
		header.Set(jetstream.MsgTTLHeader, e.ttl.String())
	}
	return js.publishAt(ctx, bus.Message{Subject: js.bus.Tick(e.kind(), e.stored), Body: e.body, Header: header}, e.tick.Sequence)
}

// skipped returns the time between two others at which the clocks go forward in the zone of a
// cron expression, if it is due in the hour that they skip and not in the one that follows.
func (j Job) skipped(from, to time.Time) (at time.Time, ok bool) {
	times, err := j.dueTimes()
	if j.Cron == "" || err != nil {
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
