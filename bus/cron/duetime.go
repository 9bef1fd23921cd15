package cron

import (
	"cmp"
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

// DueTime returns the due time of a tick. Every copy of the tick has the same due time,
// and every other tick of the schedule has another one. ok is false if the tick is neither
// from the server nor made up in its place.
func DueTime(d *consume.Delivery) (due time.Time, ok bool) {
	due, _ = tickTimes(d.Header)
	return due, !due.IsZero()
}

// IsOnlyTick reports whether d is the only tick of a schedule with At.
func IsOnlyTick(d *consume.Delivery) bool {
	due, next := tickTimes(d.Header)
	return !due.IsZero() && next.IsZero()
}

// WasWithdrawn reports whether somebody removed or disabled the schedule of d, which has other ticks too. Such a tick exists if
// the caller that removed the schedule could not remove the tick any more, or if Jobs.KeepTime published it late: its process
// stood still after it had read the schedule.
func WasWithdrawn(ctx context.Context, b *bus.Bus, d *consume.Delivery, kind, name string) (bool, error) {
	if _, next := tickTimes(d.Header); next.IsZero() && d.Header(skippedHeader) == "" {
		return false, nil
	}
	subject := cmp.Or(d.Header(jetstream.SchedulerHeader), b.Schedule(kind, name))
	schedule, err := b.Last(ctx, bus.Ticks, subject)
	return err == nil && schedule.Header.Get(jetstream.ScheduleHeader) == "", err
}

// tickTimes returns the due time of a tick and the time of the next tick. Only the server
// can set the header with the time of the next tick; the due time follows from that
// time and from the pattern of the schedule. A tick that Jobs.KeepTime made up has a header
// with its due time.
func tickTimes(header func(name string) string) (due, next time.Time) {
	j := parsePattern(header(patternHeader), header(zoneHeader))
	if header(jetstream.SchedulerHeader) == "" {
		if due, err := time.Parse(time.RFC3339Nano, header(dueHeader)); err == nil && j.Every > 0 {
			return due.UTC(), due.Add(j.Every)
		}
		return time.Time{}, time.Time{}
	}
	next, err := time.Parse(time.RFC3339Nano, header(jetstream.ScheduleNextHeader))
	switch {
	case err != nil: // the only tick of its schedule
		return j.At.UTC(), time.Time{}
	case j.Every > 0:
		return next.Add(-j.Every).UTC(), next
	}
	times, err := j.dueTimes()
	if err != nil {
		return next.UTC(), next // which is also unique
	}
	return times.before(next).UTC(), next
}
