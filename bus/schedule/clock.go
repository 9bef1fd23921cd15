package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

const (
	// clockInterval is the time between two checks of the clock.
	clockInterval = 10 * time.Second
	// minJump is the smallest difference that counts as a jump, not as a delay.
	minJump = 2 * time.Second
	// maxAhead is the longest time that schedules wait after the clock was set
	// back, so that each due time has one tick. If it was set back further, the clock had
	// been wrong before, so the schedules restart instead of waiting.
	maxAhead = 2 * time.Hour
)

// KeepTime corrects the schedules after jumps of the local clock, until ctx ends. Any
// number of processes may run it; at least one should run on the server's machine.
//
// The server waits for the next tick with a timer, which ignores changes of the clock
// and the time that a machine sleeps. After a jump forward, the timer fires too late,
// and until then no schedule ticks, not even a new one. After a jump back, the server
// waits until the clock has caught up, which is right unless the clock was wrong for
// long.
//
// A server that was stopped uncleanly counts intervals from its start. KeepTime makes up
// what it does not publish in time, and restores the due times.
func (st *Store) KeepTime(ctx context.Context, log zerolog.Logger) {
	var problem string
	jump, check := time.Duration(0), true // the clock may have jumped before the start
	var skipped time.Time                 // the last check
	late := &intervals{store: st, log: log, look: map[scheduleKey]awaited{}}
	reconnects := st.bus.Conn().Stats().Reconnects
	for last := time.Now(); ; {
		if half := time.Now().Truncate(skippedInterval); half != skipped {
			check = true
			err := st.runSkipped(ctx, time.Now(), log)
			if trouble.Report(ctx, trouble.Schedules, "skipped", err); err == nil {
				skipped = half
			} else if ctx.Err() == nil {
				log.Error().Err(err).Msg("cannot look for schedules in an hour that the clocks skipped; retrying")
			}
		}
		if n := st.bus.Conn().Stats().Reconnects; n != reconnects { // the server may have started again
			reconnects, check = n, true
		}
		if check {
			err := st.align(ctx, jump, log)
			if err == nil {
				err = late.await(ctx)
			}
			trouble.Report(ctx, trouble.Schedules, "due times", err)
			switch {
			case err == nil:
				jump, check, problem = 0, false, ""
			case ctx.Err() == nil && err.Error() != problem:
				problem = err.Error()
				log.Error().Err(err).Msg("cannot check the due times of the schedules; retrying")
			}
		}
		err := late.run(ctx)
		if trouble.Report(ctx, trouble.Schedules, "late", err); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Msg("cannot look for a tick that is late; retrying")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(late.next(clockInterval)):
		}
		now := time.Now()
		// Without monotonic readings, the difference is that of the wall clock.
		if d := now.Round(0).Sub(last.Round(0)) - now.Sub(last); d.Abs() >= minJump {
			log.Warn().Stringer("by", d.Round(time.Second)).Msg("the clock jumped, or this machine slept")
			jump, check = jump+d, true
		}
		last = now
	}
}

// align checks all schedules after the clock jumped, and corrects those whose next
// tick the server would publish too late.
func (st *Store) align(ctx context.Context, jump time.Duration, log zerolog.Logger) error {
	js := st.bus.JetStream()
	stream, err := js.Stream(ctx, st.bus.StreamName(bus.Ticks))
	if st.bus.IsUnused(ctx, st.bus.StreamName(bus.Ticks), err) {
		return nil
	}
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	now := info.TimeStamp // the server's clock
	overdue := jump > 0   // a schedule that is put later would be late, too
	for s, err := range st.List(ctx, "") {
		if err != nil {
			return err
		}
		if s.Disabled {
			continue
		}
		due, chosen, err := st.dueInServer(ctx, s)
		if err != nil {
			return err
		}
		if !due.IsZero() && due.Before(now.Add(-minJump)) {
			overdue = true
		}
		if s.At.IsZero() && chosen.After(now.Add(maxAhead)) {
			log.Warn().Str("kind", s.Kind).Str("schedule", s.Name).Time("was_due", due).Msg("the clock was set back by hours; the schedule restarts")
			if err := st.Update(ctx, s.Schedule, s.Revision); err != nil && !errors.Is(err, bus.ErrConflict) {
				return err // after a conflict, another process did it
			}
		}
	}
	if !overdue {
		return nil
	}
	// An update of the stream, even without a change, makes the server check which
	// schedules are due (UpdateConfig in its filestore.go); a new schedule does not.
	_, err = js.UpdateStream(ctx, info.Config)
	return err
}

// dueInServer returns when the server will publish the next tick of s, if it is on
// time, and the server's time when it chose that.
func (st *Store) dueInServer(ctx context.Context, s Status) (due, chosen time.Time, err error) {
	tick, err := st.last(ctx, st.bus.Tick(s.Kind, s.Name))
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	if tick.Sequence > s.Revision && tick.Header.Get(jetstream.SchedulerHeader) != "" {
		if _, next := tickTimes(tick.Header.Get); !next.IsZero() {
			return next, tick.At, nil
		}
	}
	return s.Schedule.next(s.Since, s.Since), s.Since, nil
}
