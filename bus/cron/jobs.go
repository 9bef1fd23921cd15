package cron

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

var (
	// ErrNotFound: there is no job of that name, or it is another session's.
	ErrNotFound = tools.Errorf(tools.CodeNotFound, "no such job")
	// ErrExists: the name is taken, here or in another session.
	ErrExists = tools.Errorf(tools.CodeInvalidArguments, "the name is taken; choose another or update the job")
	// ErrChanged: others change the job all the time.
	ErrChanged = tools.Errorf("conflict", "the job changed meanwhile; look at it again")
	// ErrTooMany: the session has as many jobs as it may.
	ErrTooMany = tools.Errorf(tools.CodeInvalidArguments, "there are %d jobs; remove one first", MaxJobs)
)

// MaxJobs is how many jobs a session may add, so that a model that goes round in
// circles does not fill the server. Operators may add more.
const MaxJobs = 100

// Caller is who asks. The zero value is the default session.
type Caller struct {
	// Session sees and changes its own jobs.
	Session string
	// Token stands for Session where only its token is known.
	Token string
	// Operator sees and changes all.
	Operator bool
}

func (c Caller) token() string {
	if c.Token != "" {
		return c.Token
	}
	return tools.Call{Session: c.Session}.SessionToken()
}

// session returns the name under which the caller's jobs run.
func (c Caller) session() (string, error) {
	switch {
	case c.Session != "":
		return c.Session, nil
	case c.Token == "":
		return tools.DefaultSession, nil
	case tools.Token(c.Token) != c.Token: // a hash
		return "", tools.Errorf(tools.CodeInvalidArguments, "the session is known as %q only; name it in full", tools.Excerpt(c.Token, 80))
	}
	return c.Token, nil
}

func (c Caller) owns(j Job) bool {
	return c.Operator || tools.Call{Session: j.Session}.SessionToken() == c.token()
}

// Jobs are the jobs of a bus. It is safe for concurrent use; what it returned
// is durable.
type Jobs struct{ bus *bus.Bus }

// New returns the jobs of b.
func New(b *bus.Bus) *Jobs { return &Jobs{bus: b} }

// Add adds a job, or fails with ErrExists. A job that was added with the same
// key before is returned as it is.
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
	if j.Key != "" {
		prior, err := js.get(ctx, by, j.Name)
		if err == nil && prior.Key == j.Key {
			return prior, nil // even if it ran meanwhile
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Entry{}, err
		}
	}
	j.CreatedAt = time.Now().UTC().Truncate(time.Second)
	s, err := j.schedule() // before others are looked at
	if err != nil {
		return Entry{}, err
	}
	if !by.Operator {
		if err := js.checkRoom(ctx, by); err != nil {
			return Entry{}, err
		}
	}
	if err := js.replace(ctx, s, 0); errors.Is(err, ErrChanged) {
		return Entry{}, ErrExists
	} else if err != nil {
		return Entry{}, err
	}
	return js.get(ctx, by, j.Name)
}

// checkRoom counts the caller's jobs. Two adders at once may go over the limit
// by one, which does no harm.
func (js *Jobs) checkRoom(ctx context.Context, by Caller) error {
	count := 0
	err := js.bus.Each(ctx, bus.Ticks, []string{js.bus.Schedule(bus.Cron, "*")}, func(_ string, body []byte) error {
		if tick, err := tools.DecodeTick(body); err == nil && by.owns(Job{Session: tick.Session}) {
			count++
		}
		return nil
	})
	if err == nil && count >= MaxJobs {
		err = ErrTooMany
	}
	return err
}

// Get returns a job, or ErrNotFound.
func (js *Jobs) Get(ctx context.Context, by Caller, name string) (Entry, error) {
	e, err := js.get(ctx, by, name)
	if err == nil {
		e.LastRun, err = (&runs{bus: js.bus}).last(ctx, e.Job)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("get job %q: %w", tools.Excerpt(name, 80), err)
	}
	return e, nil
}

// List lists the caller's jobs, by name.
func (js *Jobs) List(ctx context.Context, by Caller) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		last := &runs{bus: js.bus}
		for s, err := range js.bus.Schedules(ctx, bus.Cron) {
			if err != nil {
				yield(Entry{}, fmt.Errorf("list jobs: %w", err))
				return
			}
			e, ok := entry(s, by)
			if !ok {
				continue
			}
			if e.LastRun, err = last.last(ctx, e.Job); err != nil {
				err = fmt.Errorf("list jobs: %w", err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// maxTries bounds how often a change is tried again because others changed the
// job as well.
const maxTries = 10

// Update changes a job: change gets it as it is, and again if somebody else
// changed it meanwhile. A job that is as it was before is not touched.
func (js *Jobs) Update(ctx context.Context, by Caller, name string, change func(*Job) error) (Entry, error) {
	err := js.retry(func() error {
		e, err := js.get(ctx, by, name)
		if err != nil {
			return err
		}
		j := e.Job
		if err := change(&j); err != nil {
			return err
		}
		j.Name, j.Key, j.CreatedAt = e.Name, e.Key, e.CreatedAt
		if !by.Operator {
			j.Session = e.Session
		}
		return js.replaceChanged(ctx, e, j)
	})
	if err != nil {
		return Entry{}, fmt.Errorf("update job %q: %w", tools.Excerpt(name, 80), err)
	}
	return js.Get(ctx, by, name)
}

// Enable lets a job run again.
func (js *Jobs) Enable(ctx context.Context, by Caller, name string) (Entry, error) {
	return js.Update(ctx, by, name, func(j *Job) error { j.Disabled = false; return nil })
}

// Disable keeps a job from running; a run that began goes on.
func (js *Jobs) Disable(ctx context.Context, by Caller, name string) (Entry, error) {
	return js.Update(ctx, by, name, func(j *Job) error { j.Disabled = true; return nil })
}

// Remove removes a job and a tick of it that waits; a run that began goes on.
func (js *Jobs) Remove(ctx context.Context, by Caller, name string) error {
	err := js.retry(func() error {
		e, err := js.get(ctx, by, name)
		if err != nil {
			return err
		}
		err = js.bus.RemoveSchedule(ctx, bus.Cron, name, e.revision)
		if errors.Is(err, bus.ErrConflict) {
			return ErrChanged
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove job %q: %w", tools.Excerpt(name, 80), err)
	}
	return nil
}

func (js *Jobs) retry(try func() error) error {
	var err error
	for range maxTries {
		if err = try(); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return err
}

// get returns a job without its last run.
func (js *Jobs) get(ctx context.Context, by Caller, name string) (Entry, error) {
	if !tools.IsToken(name) {
		return Entry{}, ErrNotFound
	}
	s, ok, err := js.bus.GetSchedule(ctx, bus.Cron, name)
	if err == nil && !ok {
		s, ok, err = js.bus.EndedSchedule(ctx, bus.Cron, name)
	}
	if err != nil {
		return Entry{}, err
	}
	if ok {
		if e, mine := entry(s, by); mine {
			return e, nil
		}
	}
	return Entry{}, ErrNotFound
}

// entry reads what the server holds, if the caller may see it. What is no job
// is the operator's, to be removed or overwritten.
func entry(s bus.Scheduled, by Caller) (Entry, bool) {
	j, err := job(s)
	switch {
	case err == nil && !by.owns(j), err != nil && !by.Operator:
		return Entry{}, false
	case err != nil:
		j = Job{Name: s.Name, Every: s.Every, Cron: s.Cron, TimeZone: s.TimeZone, At: s.At, Disabled: s.Disabled}
	}
	return Entry{Job: j, ChangedAt: s.Since.UTC(), Next: s.Next, Ended: s.Revision == 0, revision: s.Revision}, true
}

// replaceChanged writes nothing if nothing changed: writing would begin the
// interval anew.
func (js *Jobs) replaceChanged(ctx context.Context, old Entry, j Job) error {
	if old.Ended && j.At.Equal(old.At) {
		return tools.Errorf(tools.CodeInvalidArguments, "the job ran at its time, %s, and has ended; give it a new time", old.At.UTC().Format(time.RFC3339))
	}
	after, err := j.schedule()
	if err != nil {
		return err
	}
	if before, err := old.schedule(); err == nil && !old.Ended && same(before, after) {
		return nil
	}
	return js.replace(ctx, after, old.revision)
}

func same(a, b bus.Schedule) bool {
	return a.Every == b.Every && a.Cron == b.Cron && a.TimeZone == b.TimeZone && a.At.Equal(b.At) &&
		a.Disabled == b.Disabled && string(a.Body) == string(b.Body)
}

func (js *Jobs) replace(ctx context.Context, s bus.Schedule, revision uint64) error {
	err := js.bus.ReplaceSchedule(ctx, s, revision)
	if errors.Is(err, bus.ErrConflict) {
		return ErrChanged
	}
	return err
}
