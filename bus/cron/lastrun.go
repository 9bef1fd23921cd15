package cron

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// Run is one run of a schedule, read from the events on the bus.
type Run struct {
	// Call is the id of its call, in the schedule's session.
	Call string `json:"call"`
	// Due is the due time of the run.
	Due time.Time `json:"slot"`
	// Outcome is empty until there is a result, and Async while the work continues
	// in the background.
	Outcome tools.Outcome `json:"outcome,omitempty"`
	// Message is the error of a run that did not succeed.
	Message string    `json:"message,omitempty"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// lastRecord returns the record of the newest run of a job; ok is false if there is none.
func (js *Jobs) lastRecord(ctx context.Context, e Entry) (record RunRecord, ok bool, err error) {
	last, err := js.bus.Last(ctx, bus.Ticks, js.bus.RunOf(e.kind(), e.scheduleName()))
	if err != nil || last.Sequence == 0 {
		return RunRecord{}, false, err
	}
	if json.Unmarshal(last.Body, &record) != nil || record.Call == "" || record.Session != e.Session {
		return RunRecord{}, false, nil // not a job's, or of an earlier job with this name
	}
	if e.Ended && !record.Due.Equal(e.At) {
		return RunRecord{}, false, nil // no worker has taken the only tick yet
	}
	return record, true, nil
}

// lastRun returns the newest run of a job, or nil. explained says that its Message tells why it has no result.
func (js *Jobs) lastRun(ctx context.Context, e Entry, explained bool) (*Run, error) {
	b := js.bus
	record, ok, err := js.lastRecord(ctx, e)
	if err != nil || !ok {
		return nil, err
	}
	run, err := readRun(ctx, b, record)
	if err != nil || run.Outcome != "" || !explained {
		return run, err
	}
	var drops retention.Drops
	ended, lost, err := record.Gone(ctx, b, func(ctx context.Context) (time.Time, error) { return drops.CompleteSince(ctx, b) })
	switch {
	case err != nil:
		return nil, err
	case lost && !record.Restarted && !e.Next.IsZero() && e.Next.Before(record.Deadline):
		run.Message = "no stream has its call; the next tick starts it"
	case lost:
		run.Message = "no stream has its call"
	case ended:
		run.Message = "the result is no longer stored"
	}
	return run, nil
}

// readRun reads how a run went, from its results.
func readRun(ctx context.Context, b *bus.Bus, record RunRecord) (*Run, error) {
	run := &Run{Call: record.Call, Due: record.Due}
	k := record.Key()
	stored, err := task.ReadResults(ctx, b, k.Session, k.ID)
	if err != nil {
		return nil, err
	}
	for _, event := range stored {
		run.apply(event.ResultEvent)
	}
	return run, nil
}

// FailingSchedules is how many schedules Failing looks at.
const FailingSchedules = 200

// readsAtOnce is how many of them it looks at at the same time.
const readsAtOnce = 16

// endedFails is how long a job that runs once counts as failing.
const endedFails = 24 * time.Hour

// Failing returns the jobs and heartbeats whose last run that ended has failed, if they will run again or ran once
// within a day: the newest run first. It looks at the FailingSchedules that ran last; more is true if there may be others. A run
// counts while its result is stored.
func (js *Jobs) Failing(ctx context.Context) (failing []Entry, more bool, err error) {
	b := js.bus
	if stream, err := b.UsedStream(ctx, bus.Ticks); stream == nil || err != nil {
		return nil, false, err
	}
	runs, order := map[string][]bus.Stored{}, []string{} // the stream keeps two runs of each schedule
	for m, err := range b.Read(ctx, bus.Ticks, bus.Back(b.RunOf("*", "*"), 0)) {
		if err != nil {
			return nil, false, err
		}
		if runs[m.Subject] == nil && len(order) == FailingSchedules {
			more = true
			break
		}
		if runs[m.Subject] == nil {
			order = append(order, m.Subject)
		}
		runs[m.Subject] = append(runs[m.Subject], m)
	}
	failing = make([]Entry, len(order))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, subject := range order {
		group.Go(func() (err error) {
			failing[i], err = js.failing(ctx, subject, runs[subject])
			return err
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(failing, func(e Entry) bool { return e.LastRun == nil }), more, err
}

// failing returns the schedule of the records of some runs, the newest first, with its last run that has ended if
// that failed.
func (js *Jobs) failing(ctx context.Context, subject string, runs []bus.Stored) (Entry, error) {
	for _, m := range runs {
		var record RunRecord
		if json.Unmarshal(m.Body, &record) != nil || record.Call == "" {
			return Entry{}, nil
		}
		run, err := readRun(ctx, js.bus, record)
		if err == nil && run.EndedAt.IsZero() {
			continue // it goes on
		}
		if err != nil || !run.failed() {
			return Entry{}, err
		}
		tokens := js.bus.Split(subject)
		e, ok, err := js.read(ctx, tokens[1], tokens[2])
		if e.LastRun = run; err != nil || !ok || e.Disabled || !e.isListed() || e.Session != record.Session {
			return Entry{}, err
		}
		return e, nil
	}
	return Entry{}, nil
}

// failed reports whether the run has ended and did not succeed.
func (run *Run) failed() bool {
	return !run.EndedAt.IsZero() && run.Message != "" && run.Outcome != tools.Cancelled
}

// isListed reports whether lists have the job: one that ran once only if it failed within a day.
func (e Entry) isListed() bool {
	return !e.Ended || e.LastRun == nil || e.LastRun.failed() && time.Since(e.LastRun.EndedAt) <= endedFails
}

func (run *Run) apply(e tools.ResultEvent) {
	run.Outcome = e.Outcome
	if e.Outcome != tools.Async {
		run.EndedAt = e.EndedAt()
	}
	if e.IsError {
		run.Message = e.ForLLM
		if run.Message == "" && e.Error != nil {
			run.Message = e.Error.Message
		}
		run.Message = tools.Excerpt(run.Message, 1000)
	}
}
