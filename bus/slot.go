package bus

import (
	"time"

	"github.com/adhocore/gronx"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Slot returns the time that a tick stands for, whenever it was published: the
// same for every copy of it, another one for every other tick of its schedule.
// ok is false if the server did not make the tick.
func (d *Delivery) Slot() (slot time.Time, ok bool) {
	slot, _ = tickTimes(d.msg.Header)
	return slot, !slot.IsZero()
}

// OnlyTick reports whether the tick is the only one of its schedule, which is
// gone.
func (d *Delivery) OnlyTick() bool {
	slot, next := tickTimes(d.msg.Header)
	return !slot.IsZero() && next.IsZero()
}

// tickTimes reads from a tick's headers what slot it is for and when the next
// one is due. The server only says the latter, but it accepts that from nobody
// else; the slot follows from it and from the schedule's pattern.
func tickTimes(h nats.Header) (slot, next time.Time) {
	s := parsePattern(h.Get(patternHeader), h.Get(zoneHeader))
	if h.Get(jetstream.SchedulerHeader) == "" {
		return time.Time{}, time.Time{}
	}
	next, err := time.Parse(time.RFC3339Nano, h.Get(jetstream.ScheduleNextHeader))
	switch {
	case err != nil: // the only tick of its schedule
		return s.At.UTC(), time.Time{}
	case s.Every > 0:
		return next.Add(-s.Every).UTC(), next
	}
	return s.previous(next).UTC(), next
}

// previous returns the time before next that a cron expression was due; next
// itself, which names the slot as well, if the expression does not lead back to
// it.
func (s Schedule) previous(next time.Time) time.Time {
	fields, err := cronFields(s.Cron)
	loc, zoneErr := s.location()
	if err != nil || zoneErr != nil {
		return next
	}
	prev, err := gronx.PrevTickBefore(fields+" *", next.In(loc), false)
	if err != nil || !s.next(time.Time{}, prev).Equal(next) {
		return next
	}
	return prev
}
