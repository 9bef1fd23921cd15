package cron

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
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
func (js *Jobs) KeepTime(ctx context.Context, log zerolog.Logger) {
	k := &timekeeper{jobs: js, log: log}
	var problem string
	jump, check := time.Duration(0), true // the clock may have jumped before the start
	var checked time.Time                 // the half hour of the last check, for skipped hours
	reconnects := js.bus.Conn().Stats().Reconnects
	for last := time.Now(); ; {
		if n := js.bus.Conn().Stats().Reconnects; n != reconnects { // the server may have started again
			reconnects, check = n, true
		}
		if half := time.Now().Truncate(skippedInterval); check || half != checked {
			err := k.check(ctx, jump)
			trouble.Report(ctx, trouble.Schedules, "due times", err)
			switch {
			case err == nil:
				jump, check, checked, problem = 0, false, half, ""
			case ctx.Err() == nil && err.Error() != problem:
				problem = err.Error()
				log.Error().Err(err).Msg("cannot check the due times of the schedules; retrying")
			}
		}
		err := k.makeUp(ctx)
		if trouble.Report(ctx, trouble.Schedules, "late", err); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Msg("cannot look for a tick that is late; retrying")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(k.next(clockInterval)):
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

// timekeeper corrects the ticks of the server.
type timekeeper struct {
	jobs    *Jobs
	log     zerolog.Logger
	awaited map[scheduleKey]awaited
}

// check runs what the clocks skipped, corrects the schedules whose next tick the server would
// publish too late after the clock jumped, and begins to await the tick of each interval.
func (k *timekeeper) check(ctx context.Context, jump time.Duration) error {
	b := k.jobs.bus
	stream, err := b.JetStream().Stream(ctx, b.StreamName(bus.Ticks))
	if b.IsUnused(ctx, b.StreamName(bus.Ticks), err) {
		return nil
	}
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	now := info.TimeStamp // the server's clock
	overdue := jump > 0   // a schedule that is put later would be late, too
	look, intervals := time.Now().Add(lateAfter), map[scheduleKey]awaited{}
	for e, err := range k.jobs.all(ctx, "", "", false, nil) {
		if err == nil && !e.Disabled {
			err = k.jobs.runSkipped(ctx, e, time.Now(), k.log)
		}
		if err != nil {
			return err
		}
		if e.Disabled {
			continue
		}
		due, chosen := e.dueInServer()
		if !due.IsZero() && due.Before(now.Add(-minJump)) {
			overdue = true
		}
		if e.At.IsZero() && chosen.After(now.Add(maxAhead)) {
			k.log.Warn().Str("kind", e.kind()).Str("schedule", e.stored).Time("was_due", due).Msg("the clock was set back by hours; the schedule restarts")
			if err := k.restart(ctx, e, nil); err != nil && !errors.Is(err, bus.ErrConflict) {
				return err // after a conflict, another process did it
			}
		}
		if e.Every > 0 && e.ours {
			intervals[scheduleKey{e.kind(), e.stored}] = awaited{look, e.tick.Sequence}
		}
	}
	if k.awaited = intervals; !overdue {
		return nil
	}
	// An update of the stream, even without a change, makes the server check which
	// schedules are due (UpdateConfig in its filestore.go); a new schedule does not.
	_, err = b.JetStream().UpdateStream(ctx, info.Config)
	return err
}

// restart writes a schedule again, with one more header, so that its interval begins anew.
func (k *timekeeper) restart(ctx context.Context, e Entry, header nats.Header) error {
	m, err := k.jobs.rawMessage(e.Job, e.body, e.ttl)
	if err != nil {
		return err
	}
	maps.Copy(m.Header, header)
	return k.jobs.publishAt(ctx, m, e.revision)
}

// dueInServer returns when the server will publish the next tick, if it is on
// time, and the server's time when it chose that.
func (e Entry) dueInServer() (due, chosen time.Time) {
	if e.tick.Sequence > e.revision && e.tick.Header.Get(jetstream.SchedulerHeader) != "" {
		if _, next := tickTimes(e.tick.Header.Get); !next.IsZero() {
			return next, e.tick.At
		}
	}
	return e.next(e.ChangedAt, e.ChangedAt), e.ChangedAt
}

// dueSince returns the first time after another one when a tick is due that the server has not published, or zero.
func (e Entry) dueSince(after time.Time) (due time.Time) {
	if e.tick.Sequence > e.revision {
		if _, due = tickTimes(e.tick.Header.Get); due.Before(after) {
			return time.Time{} // or nobody knows
		}
		return due
	}
	if e.ChangedAt.After(after) {
		after = e.ChangedAt
	}
	return e.next(e.ChangedAt, after)
}
