package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// clockLook is how often KeepTime looks at the clock.
	clockLook = 10 * time.Second
	// minJump tells a clock that was set, or a machine that slept, from one that
	// is merely slow to answer.
	minJump = 2 * time.Second
	// maxAhead is how far a clock that is set back may lead schedules to wait.
	// Up to it they do, so that each slot ticks once; beyond it the clock was
	// wrong before, and what it ran ahead must not silence them.
	maxAhead = 2 * time.Hour
)

// KeepTime keeps the server's schedules in time with the clock, until ctx ends.
// Any number of processes may do so, best where the server runs: what it goes by
// is the jumps of this machine's clock.
//
// The server waits for the next tick with a timer, and a timer knows nothing of
// a clock that is set, nor of the hours that a machine sleeps. After a jump
// forward it would go on to wait, and make no tick meanwhile, not even one of a
// schedule that is new. After a jump back it waits until the clock has caught
// up, which is right unless the clock was wrong for long.
func (b *Bus) KeepTime(ctx context.Context) {
	var problem string
	jump, look := time.Duration(0), true // the clock may have been set while nobody looked
	for last := time.Now(); ; {
		if look {
			switch err := b.alignSchedules(ctx, jump); {
			case err == nil:
				jump, look, problem = 0, false, ""
			case ctx.Err() == nil && err.Error() != problem:
				problem = err.Error()
				b.log.Error().Err(err).Msg("cannot see whether schedules keep time; trying on")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(clockLook):
		}
		now := time.Now()
		// Without their monotonic readings, times tell what the clock showed.
		if d := now.Round(0).Sub(last.Round(0)) - now.Sub(last); d.Abs() >= minJump {
			b.log.Warn().Stringer("by", d.Round(time.Second)).Msg("the clock was set, or this machine slept")
			jump, look = jump+d, true
		}
		last = now
	}
}

// alignSchedules looks at all schedules after the clock jumped, and mends those
// that the server would not serve in time.
func (b *Bus) alignSchedules(ctx context.Context, jump time.Duration) error {
	js, err := b.js.Stream(ctx, b.StreamName(Ticks))
	if err != nil {
		return fmt.Errorf("align schedules: %w", err)
	}
	info := js.CachedInfo()
	now := info.TimeStamp // the server's clock
	overdue := jump > 0   // or something is that will be put soon
	for s, err := range b.Schedules(ctx, "") {
		if err != nil {
			return fmt.Errorf("align schedules: %w", err)
		}
		if s.Disabled {
			continue
		}
		due, made, err := b.dueInServer(ctx, s)
		if err != nil {
			return fmt.Errorf("align schedules: %w", err)
		}
		if !due.IsZero() && due.Before(now.Add(-minJump)) {
			overdue = true
		}
		if s.At.IsZero() && made.After(now.Add(maxAhead)) {
			b.log.Warn().Str("kind", s.Kind).Str("schedule", s.Name).Time("was_due", due).Msg("the clock was set back by hours; the schedule begins anew")
			if err := b.ReplaceSchedule(ctx, s.Schedule, s.Revision); err != nil && !errors.Is(err, ErrConflict) {
				return fmt.Errorf("align schedules: %w", err) // a conflict is somebody who did the same
			}
		}
	}
	if !overdue {
		return nil
	}
	// An update, even one that changes nothing, makes the server look what is
	// due (UpdateConfig in its filestore.go); a new schedule does not.
	if _, err := b.js.UpdateStream(ctx, info.Config); err != nil {
		return fmt.Errorf("align schedules: have the server look what is due: %w", err)
	}
	return nil
}

// dueInServer returns when the server will make the next tick of s, if it is in
// time, and what its clock showed when it chose that.
func (b *Bus) dueInServer(ctx context.Context, s Scheduled) (due, chosen time.Time, err error) {
	tick, err := b.rawSchedule(ctx, b.Tick(s.Kind, s.Name))
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	if tick != nil && tick.Sequence > s.Revision {
		if _, next := tickTimes(tick.Header); !next.IsZero() {
			return next, tick.Time, nil
		}
	}
	return s.Schedule.next(s.Since, s.Since), s.Since, nil
}
