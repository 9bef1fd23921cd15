package cron

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Caller identifies the caller. The zero value is the default session.
type Caller struct {
	// Session can see and change its own jobs.
	Session string
	// Token replaces Session if only the token is known.
	Token string
	// Operator can see and change all jobs.
	Operator bool
}

func (c Caller) token() string {
	return cmp.Or(c.Token, tools.Call{Session: c.Session}.SessionToken())
}

// session returns the session of the caller's jobs.
func (c Caller) session() (string, error) {
	switch {
	case c.Session != "":
		return c.Session, nil
	case c.Token == "":
		return tools.DefaultSession, nil
	case tools.Token(c.Token) != c.Token: // a hash
		return "", tools.Errorf(tools.CodeInvalidArguments, "the session is known only by the hash %q; give its full name", tools.Excerpt(c.Token, 80))
	}
	return c.Token, nil
}

// mayOwn reports whether the job of a schedule may belong to the caller, by the name of the
// schedule. Another program may store a job under a name without a session. That of a heartbeat
// has none.
func (c Caller) mayOwn(kind, stored string) bool {
	session, _, marked := strings.Cut(stored, sessionMark)
	return c.Operator || kind != bus.Cron || !marked || session == c.token()
}

// sees reports whether the caller may see e. Only operators see schedules that are no jobs, so that
// they can remove or overwrite them.
func (c Caller) sees(e Entry) bool {
	return c.Operator || !e.foreign && tools.Call{Session: e.Session}.SessionToken() == c.token()
}

// get returns a job without its last run. For operators, the name may be that of the
// schedule, a job of the default session, or the only job of any session with this name.
func (js *Jobs) get(ctx context.Context, by Caller, name string) (Entry, error) {
	if !tools.IsToken(name) && !(by.Operator && bus.CheckSubject(name) == nil) { // another program may have stored a schedule
		return Entry{}, ErrNotFound
	}
	type key struct{ kind, stored string }
	keys := []key{{bus.Cron, name}}
	if !by.Operator { // another program may have stored a job under its own name
		keys = slices.Compact([]key{{bus.Cron, storedName(by.token(), name)}, {bus.Cron, name}, {bus.Heartbeat, name}})
	}
	for _, k := range keys {
		e, ok, err := js.read(ctx, k.kind, k.stored)
		if err != nil {
			return Entry{}, err
		}
		if ok && by.sees(e) && (e.Name == name || by.Operator) {
			return e, nil
		}
	}
	if !by.Operator {
		return Entry{}, ErrNotFound
	}
	return js.findByName(ctx, name)
}

const (
	// dueSoon is how much later the server looks which ticks are due, and awaitTick how long it takes at most to publish
	// those that are due at once. One that comes later waits for a server that has stopped, or whose clock has jumped.
	dueSoon   = 250 * time.Millisecond
	awaitTick = 5 * time.Second
)

// getToChange is get behind the tick of the job, if one is due.
func (js *Jobs) getToChange(ctx context.Context, by Caller, name string) (e Entry, err error) {
	return js.behindTick(ctx, func() (Entry, error) { return js.get(ctx, by, name) })
}

// behindTick reads a schedule, but waits while the server publishes a tick of it: with the tick, it removes the schedule of a job
// that runs once, and sets the next due time of another one, also if somebody has changed that schedule since the tick was due.
func (js *Jobs) behindTick(ctx context.Context, read func() (Entry, error)) (e Entry, err error) {
	for began := time.Now(); time.Since(began) < awaitTick; {
		if e, err = read(); err != nil || e.Ended || e.Disabled || e.revision == 0 {
			return e, err
		}
		info, err := js.info(ctx)
		if due := e.dueSince(info.TimeStamp.Add(-awaitTick)); err != nil || due.IsZero() || due.Sub(info.TimeStamp) > dueSoon {
			return e, err
		}
		if err := tools.Sleep(ctx, dueSoon/4); err != nil {
			return Entry{}, err
		}
	}
	return e, nil
}

// findByName returns the only job or heartbeat of any session with a name, and otherwise the only job with it that has ended.
func (js *Jobs) findByName(ctx context.Context, name string) (found Entry, err error) {
	for e, err := range js.all(ctx, "", "", true, nil) {
		switch {
		case err != nil:
			return Entry{}, err
		case e.Name != name || e.Ended && found.Name != "" && !found.Ended:
		case found.Name == "" || found.Ended && !e.Ended:
			found = e
		default:
			return Entry{}, tools.Errorf(tools.CodeInvalidArguments, "several sessions have a job %q, such as %q and %q; name the session, "+
				"or the schedule (%s)", name, found.Session, e.Session, e.stored)
		}
	}
	if found.Name == "" {
		return Entry{}, ErrNotFound
	}
	return found, nil
}
