package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/tools"
)

// run is one message of a user on its way to an answer.
type run struct {
	*Agent
	call    tools.Call // that began it; its ids, channel and deadline
	session string     // token
	id      string     // token
	prompt  Message
	grant   Limits
	conv    *conversation
}

// Run answers a prompt in the session of a call, and returns how that ended. The
// call's id names the run: if it has ended before, Run returns its outcome; if
// it was begun, here or elsewhere, Run takes it up where it stands; while
// another run has the session, Run waits.
//
// An error means that the run has no end yet: its log failed, or ctx was
// cancelled, which is how a process stops. Running it again goes on. What ends
// the run is a deadline of ctx, and a cause that is a *tools.Error of
// tools.CodeCancelled: somebody does not want the run any more.
func (a *Agent) Run(ctx context.Context, call tools.Call, prompt ...Block) (Outcome, error) {
	call.Session = cmp.Or(call.Session, tools.DefaultSession)
	r := &run{
		Agent: a, call: call, session: call.SessionToken(), id: call.IDToken(),
		prompt: Message{Role: RoleUser, Content: prompt}, grant: a.cfg.Limits,
	}
	r.grant.Tools = slices.Sorted(maps.Keys(a.offered))
	policy := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(logPatience))
	var outcome Outcome
	fenced := false
	err := backoff.RetryNotify(func() (err error) {
		outcome, err = r.attempt(ctx, fenced)
		if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, errLog) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx), func(err error, _ time.Duration) {
		if fenced = errors.Is(err, ErrConflict); fenced {
			policy.Reset() // the log works
		}
		a.cfg.Log.Warn().Err(err).Str("session", r.session).Str("run", r.id).Msg("the run is taken up again from its log")
	})
	return outcome, err
}

// attempt takes the run up and goes on with it.
func (r *run) attempt(ctx context.Context, fenced bool) (Outcome, error) {
	end, err := r.takeUp(ctx, fenced)
	switch {
	case err != nil && ctx.Err() != nil:
		return r.notBegun(ctx)
	case err != nil:
		return Outcome{}, err
	case end != nil:
		return *end, nil
	}
	return r.loop(ctx)
}

// logPatience is how long a log that fails is tried; the run goes on where it
// was.
const logPatience = 10 * time.Minute

// errLog: the log failed. What stands in it must be read again.
var errLog = errors.New("the log of the conversation failed")

// takeUp makes the session this run's by an entry of ours, or returns how the
// run ended. One that was fenced off by another worker leaves it the run, until
// that one is silent for long.
func (r *run) takeUp(ctx context.Context, fenced bool) (*Outcome, error) {
	var seen uint64
	since := time.Now()
	for {
		r.cfg.OnStep(StepRead)
		if err := r.read(ctx); err != nil {
			return nil, err
		}
		if end, ok := r.conv.ended[r.id]; ok {
			return end, nil
		}
		if r.conv.last != seen {
			seen, since = r.conv.last, time.Now()
		}
		stale := time.Since(since) >= r.cfg.StaleAfter
		var err error
		switch open := r.conv.open; {
		case open == nil:
			err = r.append(ctx, Entry{Kind: KindUser, Message: &r.prompt, Call: &r.call, Limits: &r.grant, Fresh: r.cfg.Fresh})
		case open.run == r.id && (!fenced || stale):
			err = r.append(ctx, Entry{Kind: KindResumed})
		case open.run != r.id:
			if err = r.abandon(ctx, open, stale); err == nil {
				continue
			}
		default:
			err = errWait
		}
		switch {
		case err == nil:
			return nil, nil
		case errors.Is(err, ErrConflict):
			continue
		case !errors.Is(err, errWait):
			return nil, err
		}
		tools.Detach(ctx)
		select {
		case <-time.After(r.cfg.PollInterval):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errWait = errors.New("another run has the session")

// abandon ends the run of somebody who is gone, so that the session is not
// locked for ever; errWait if it may go on.
func (r *run) abandon(ctx context.Context, open *progress, stale bool) error {
	over := false
	var err error
	if r.cfg.HasResult != nil {
		over, err = r.cfg.HasResult(ctx, r.session, open.run)
	}
	if !over && stale && err == nil {
		over = true
		if r.cfg.IsRunning != nil {
			over, err = r.cfg.IsRunning(ctx, r.session, open.run)
			over = !over
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: ask about run %s: %w", errLog, open.run, err)
	case !over:
		return errWait
	}
	r.cfg.Log.Warn().Str("session", r.session).Str("run", open.run).Msg("a run without an end has nobody that goes on with it; it is ended")
	end := r.outcome(open, Abandoned, nil)
	return r.append(ctx, Entry{Kind: KindEnd, Run: open.run, End: &end})
}

func (r *run) read(ctx context.Context) error {
	ctx, stop := lastingLonger(ctx, appendPatience)
	defer stop()
	entries, last, err := r.log.Read(ctx, r.session)
	if err != nil {
		return fmt.Errorf("%w: read conversation %s: %w", errLog, r.session, err)
	}
	r.conv = newConversation()
	for _, data := range entries {
		e, err := DecodeEntry(data)
		if err != nil {
			return err
		}
		r.conv.add(last, e)
	}
	r.conv.last = last
	return nil
}

// appendPatience is how long an entry is tried to be written when the process
// stops: a model's answer was paid for.
const appendPatience = 10 * time.Second

// append adds an entry of this run, if nobody else added any.
func (r *run) append(ctx context.Context, e Entry) error {
	e.Run, e.At = cmp.Or(e.Run, r.id), time.Now().UTC()
	data, err := EncodeJSON(e)
	if err != nil {
		return fmt.Errorf("conversation %s: %w", r.session, err)
	}
	ctx, stop := lastingLonger(ctx, appendPatience)
	defer stop()
	position, err := r.log.Append(ctx, r.session, r.conv.last, data)
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrTooLarge):
		return fmt.Errorf("append to conversation %s: %w", r.session, err)
	case err != nil:
		return fmt.Errorf("%w: append to conversation %s: %w", errLog, r.session, err)
	}
	// What is remembered is what another reader would see.
	if e, err = DecodeEntry(data); err != nil {
		return err
	}
	r.conv.add(position, e)
	return nil
}

// lastingLonger returns a context that ends some time after ctx.
func lastingLonger(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// broken ends a run whose context ended, unless the process stops: then it is
// left for another one.
func (r *run) broken(ctx context.Context) (Outcome, error) {
	switch {
	case IsCancelled(ctx):
		return r.finish(ctx, Cancelled, nil)
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return r.finish(ctx, Deadline, nil)
	}
	return Outcome{}, fmt.Errorf("run %s of conversation %s was interrupted: %w", r.id, r.session, context.Cause(ctx))
}

// IsCancelled reports whether ctx ended because somebody cancelled the call that
// it belongs to, rather than because the process stops.
func IsCancelled(ctx context.Context) bool {
	cancelled, ok := errors.AsType[*tools.Error](context.Cause(ctx))
	return ok && cancelled.Code == tools.CodeCancelled
}

// notBegun is broken for a run that has not written anything.
func (r *run) notBegun(ctx context.Context) (Outcome, error) {
	p := &progress{run: r.id}
	switch {
	case IsCancelled(ctx):
		return r.outcome(p, Cancelled, nil), nil
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return r.outcome(p, Deadline, nil), nil
	}
	return Outcome{}, fmt.Errorf("run %s of conversation %s was interrupted: %w", r.id, r.session, context.Cause(ctx))
}
