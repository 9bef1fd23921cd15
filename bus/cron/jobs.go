package cron

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

var (
	// ErrNotFound: no job has the name, or it belongs to another session.
	ErrNotFound = tools.Errorf(tools.CodeNotFound, "no such job")
	// ErrExists: a job of the session has the name.
	ErrExists = tools.Errorf(tools.CodeInvalidArguments, "a job with this name exists; choose another name or update the job")
	// ErrChanged: other callers changed the job at the same time.
	ErrChanged = tools.Errorf("conflict", "the job was changed by another caller; try again")
	// ErrTooMany: the session has MaxJobs jobs.
	ErrTooMany = tools.Errorf(tools.CodeInvalidArguments, "there are %d jobs; remove one first", MaxJobs)
	// ErrKept: a program keeps the heartbeat as its settings and HEARTBEAT.md say.
	ErrKept = tools.Errorf(tools.CodeInvalidArguments, "it is a heartbeat, which the program that watches HEARTBEAT.md keeps: change that file "+
		"(an empty one removes the heartbeat), or disable the heartbeat in the settings of that program")
)

// MaxJobs is the maximum number of jobs of a session, so that a model in a loop
// does not fill the server. Operators may add more.
const MaxJobs = 10_000

// Jobs are the jobs and heartbeats of a bus. It is safe for concurrent use. Changes are durable
// when a method returns.
type Jobs struct{ bus *bus.Bus }

// New returns the jobs of b.
func New(b *bus.Bus) *Jobs { return &Jobs{bus: b} }

// Add adds a job, or fails with ErrExists. If a job with the same key exists, Add
// returns it unchanged.
func (js *Jobs) Add(ctx context.Context, by Caller, j Job) (Entry, error) {
	e, err := js.add(ctx, by, j)
	if err != nil {
		return Entry{}, fmt.Errorf("add job %q: %w", tools.Excerpt(j.Name, 80), err)
	}
	return e, nil
}

func (js *Jobs) add(ctx context.Context, by Caller, j Job) (Entry, error) {
	var err error
	if !by.Operator || j.Session == "" {
		if j.Session, err = by.session(); err != nil {
			return Entry{}, err
		}
	}
	owner := Caller{Session: j.Session}
	if j.Key != "" {
		prior, err := js.get(ctx, owner, j.Name)
		if err == nil && prior.Key == j.Key {
			return prior, nil // even if it has ended
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Entry{}, err
		}
	}
	j.CreatedAt, j.stored = time.Now().UTC().Truncate(time.Second), ""
	m, err := js.message(j)
	if err != nil {
		return Entry{}, err
	}
	if prior, err := js.get(ctx, owner, j.Name); err == nil && !prior.Ended && prior.stored != j.scheduleName() { // another program stored it
		return Entry{}, ErrExists
	} else if err != nil && !errors.Is(err, ErrNotFound) {
		return Entry{}, err
	}
	if !by.Operator {
		if full, err := js.full(ctx, by.token()); err != nil {
			return Entry{}, err
		} else if full {
			return Entry{}, ErrTooMany
		}
	}
	if err := js.write(ctx, m, 0); errors.Is(err, bus.ErrConflict) {
		return Entry{}, ErrExists
	} else if err != nil {
		return Entry{}, err
	}
	return js.get(ctx, owner, j.Name)
}

// Put stores a heartbeat, if it does not exist or may be replaced, and reports whether that changed
// anything. It does not write an unchanged one, because that restarts the interval. So any number
// of processes may put the same one.
func (js *Jobs) Put(ctx context.Context, heartbeat Job, replace bool) (changed bool, err error) {
	m, err := js.message(heartbeat)
	if err != nil {
		return false, err
	}
	err = retry(func() error {
		have, err := js.bus.Last(ctx, bus.Ticks, m.Subject)
		changed = err == nil && (have.Sequence == 0 || replace && !same(have.Header, have.Body, m))
		if changed && have.Sequence > 0 {
			err = js.letTickPass(ctx, heartbeat.kind(), heartbeat.scheduleName())
		}
		if changed && err == nil {
			err = js.write(ctx, m, have.Sequence)
		}
		return err
	})
	return changed && err == nil, err
}

// letTickPass waits while the server publishes a tick of a schedule.
func (js *Jobs) letTickPass(ctx context.Context, kind, name string) error {
	_, err := js.behindTick(ctx, func() (Entry, error) { e, _, err := js.read(ctx, kind, name); return e, err })
	return err
}

// Delete removes a heartbeat and its waiting tick, and reports whether it existed.
func (js *Jobs) Delete(ctx context.Context, heartbeat string) (existed bool, err error) {
	err = retry(func() error {
		have, err := js.bus.Last(ctx, bus.Ticks, js.bus.Schedule(bus.Heartbeat, heartbeat))
		if existed = have.Sequence > 0; existed {
			err = js.letTickPass(ctx, bus.Heartbeat, heartbeat)
		}
		if err == nil {
			err = js.remove(ctx, bus.Heartbeat, heartbeat, have.Sequence)
		}
		return err
	})
	return existed && err == nil, err
}

// full reports whether a session has MaxJobs jobs, by the names of their schedules. Sessions
// whose names are hashed share their number with the default session. Concurrent calls may
// exceed the limit, which does no harm.
func (js *Jobs) full(ctx context.Context, session string) (bool, error) {
	stream, err := js.bus.UsedStream(ctx, bus.Ticks)
	if stream == nil {
		return false, err
	}
	if info, err := stream.Info(ctx); err != nil || info.State.NumSubjects < MaxJobs {
		return false, err // all sessions together have fewer, so nobody lists their names
	}
	n := 0
	prefix, own, _ := strings.Cut(storedName(session, "x"), sessionMark)
	mine := func(_, stored string) bool {
		owner, _, marked := strings.Cut(stored, sessionMark)
		if marked == (own != "") && (!marked || owner == prefix) {
			n++
		}
		return false // none is read
	}
	for _, err := range js.all(ctx, bus.Cron, "", false, mine) {
		return false, err
	}
	return n >= MaxJobs, nil
}

// Get returns a job, or ErrNotFound.
func (js *Jobs) Get(ctx context.Context, by Caller, name string) (Entry, error) {
	e, err := js.get(ctx, by, name)
	if err == nil {
		e.LastRun, err = js.lastRun(ctx, e, true)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("get job %q: %w", tools.Excerpt(name, 80), err)
	}
	return e, nil
}

// List lists the caller's jobs by name and then the heartbeats, or those of a kind of schedule
// that is not empty, after the Answer.Next of a list before. One that runs once is listed
// until a worker takes its tick, and again for a day after it has failed.
func (js *Jobs) List(ctx context.Context, by Caller, kind, after string) iter.Seq2[Entry, error] {
	if after != "" && !strings.Contains(after, ".") {
		after = bus.Cron + "." + after
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range js.all(ctx, kind, after, true, by.mayOwn) {
			if err == nil && by.sees(e) {
				e.LastRun, err = js.lastRun(ctx, e, !e.Ended) // one that ended without a result is not listed
			}
			switch {
			case err != nil:
				yield(Entry{}, fmt.Errorf("list jobs: %w", err))
				return
			case !by.sees(e), !e.isListed():
			case !yield(e, nil):
				return
			}
		}
	}
}

// maxTries bounds the attempts to change a job that other callers change too.
const maxTries = 10

// Update changes a job. It calls change with the current job, and again if another
// caller changed the job. If change changes nothing, Update writes nothing, and the entry
// is Unchanged.
func (js *Jobs) Update(ctx context.Context, by Caller, name string, change func(*Job) error) (Entry, error) {
	return js.update(ctx, by, name, "", change)
}

// update is Update for a request with a key, which changes the job once: a duration counts from the time of a change.
func (js *Jobs) update(ctx context.Context, by Caller, name, key string, change func(*Job) error) (Entry, error) {
	var before Entry
	err := retry(func() error {
		e, err := js.getToChange(ctx, by, name)
		if err != nil {
			return err
		}
		if e.kept() {
			return ErrKept
		}
		if key != "" && e.changedBy == key {
			return nil
		}
		before = e
		j := e.Job
		if err := change(&j); err != nil {
			return err
		}
		j.Name, j.Session, j.Key, j.CreatedAt = e.Name, e.Session, e.Key, e.CreatedAt
		return js.replaceChanged(ctx, e, j, key)
	})
	if err != nil {
		return Entry{}, fmt.Errorf("update job %q: %w", tools.Excerpt(name, 80), err)
	}
	e, err := js.Get(ctx, by, name)
	e.Unchanged = err == nil && !e.Ended && e.revision == before.revision
	return e, err
}

// Remove removes a job and its waiting tick; a run that has started continues.
func (js *Jobs) Remove(ctx context.Context, by Caller, name string) error {
	var removed Entry // perhaps, in an attempt before
	err := retry(func() error {
		e, err := js.getToChange(ctx, by, name)
		if err != nil {
			return err
		}
		if e.kept() {
			return ErrKept
		}
		if removed.Name != "" && !e.CreatedAt.Equal(removed.CreatedAt) {
			return nil // somebody has added this one since
		}
		removed = e
		return js.remove(ctx, e.kind(), e.stored, e.revision)
	})
	if err != nil {
		return fmt.Errorf("remove job %q: %w", tools.Excerpt(name, 80), err)
	}
	return nil
}

// retry calls try again while another caller changes the job at the same time.
func retry(try func() error) error {
	for range maxTries {
		if err := try(); !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
	return ErrChanged
}

// replaceChanged writes j only if it differs from old, because writing restarts
// the interval.
func (js *Jobs) replaceChanged(ctx context.Context, old Entry, j Job, key string) error {
	if old.Ended && j.At.Equal(old.At) {
		return tools.Errorf(tools.CodeInvalidArguments, "the job ran at its time, %s, and has ended; give it a new time", old.At.UTC().Format(time.RFC3339))
	}
	after, err := js.message(j)
	if err != nil {
		return err
	}
	if before, err := js.message(old.Job); err != nil || old.Ended || !same(before.Header, before.Body, after) {
		if key != "" {
			j.changedBy = key
			if after, err = js.message(j); err != nil {
				return err
			}
		}
		if err := js.write(ctx, after, old.revision); err != nil {
			return err
		}
	}
	if !j.Disabled {
		return nil
	}
	return js.removeTick(ctx, j.kind(), old.stored) // nor does it run the tick that waits
}
