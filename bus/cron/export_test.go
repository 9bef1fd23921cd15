package cron

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
)

// Before returns the last time before next at which a job was due.
func (j Job) Before(next time.Time) time.Time {
	times, err := j.dueTimes()
	if err != nil {
		return time.Time{}
	}
	return times.before(next)
}

// RunSkipped runs what is checked each half hour.
func (js *Jobs) RunSkipped(ctx context.Context, now time.Time) error {
	for e, err := range js.all(ctx, "", "", false, nil) {
		if err == nil {
			err = js.runSkipped(ctx, e, now, zerolog.Nop())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Skipped returns when a job has to run although its time was skipped.
func (j Job) Skipped(from, to time.Time) (time.Time, bool) { return j.skipped(from, to) }

// Revision is the sequence of the last change; 0 means that the job has ended.
func (e Entry) Revision() uint64 { return e.revision }

// LastDue is the due time of the newest tick.
func (e Entry) LastDue() time.Time {
	due, _ := tickTimes(e.tick.Header.Get)
	return due
}

// RemoveRevision removes a job of the default session if its revision is the given one.
func (js *Jobs) RemoveRevision(ctx context.Context, name string, revision uint64) error {
	return js.remove(ctx, bus.Cron, name, revision)
}
