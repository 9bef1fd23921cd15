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
	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/retry"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

const (
	// outageTimeout is how long a run retries while its log, its calls or its output fail.
	outageTimeout = 10 * time.Minute
	// shutdownTimeout is how long the log may still be read and written after the
	// context ended: the model's answer cost money, so it should be logged.
	shutdownTimeout = 10 * time.Second
)

var (
	// errLog: the log or the store failed. The entries must be read again.
	errLog         = errors.New("the storage of the conversation failed")
	errSessionBusy = errors.New("another run has the session")
)

// run answers one message of a user.
type run struct {
	*Agent
	call    tools.Call // that started the run; has its ids, channel and deadline
	session string     // token
	id      string     // token
	prompt  Message
	limits  Limits
	conv    *conversation
	step    func(string) // called before each step
	// fenced is set if another loop has continued the run: this loop appends nothing more.
	fenced bool
	// logWorked is set if the log took or returned entries since its last failure, apart
	// from the first read and the claim of an attempt: they say little about the next entry.
	logWorked bool
}

// Run answers a prompt in the session of a call and returns how the run ended. The
// call's id names the run. If the run has ended before, Run returns its outcome. If
// another process has started it, Run continues it from its log. While another run
// has the session, Run waits.
//
// A *tools.Pause as the error means that the run waits for hours perhaps, for example
// because the provider is down: call Run again then.
//
// An error means that the run has no end yet, because its log failed or because ctx
// was cancelled when the process stops. Call Run again to continue. Two things end
// a run through ctx: its deadline, and a cause that is a *tools.Error with
// tools.CodeCancelled, which says that a client cancelled the call.
func (a *Agent) Run(ctx context.Context, call tools.Call, prompt ...Block) (Outcome, error) {
	call.Session = cmp.Or(call.Session, tools.DefaultSession)
	r := &run{
		Agent: a, call: call, session: call.SessionToken(), id: call.IDToken(),
		prompt: Message{Role: RoleUser, Content: prompt}, limits: a.cfg.Limits, step: tracing.Steps(ctx),
	}
	r.limits.Tools = slices.Sorted(maps.Keys(a.tools))
	ctx, span := tracing.Start(ctx, tracing.InvokeAgent+" "+call.Tool, trace.WithAttributes(
		tracing.Operation.String(tracing.InvokeAgent), tracing.Agent.String(call.Tool), tracing.Conversation.String(call.Session), tracing.ToolCall.String(call.ID)))
	outcome, err := r.untilEnd(ctx)
	if err != nil && !isPause(err) {
		r.cancelCalls(ctx)
	}
	endSpan(span, outcome, err)
	return outcome, err
}

// cancelCalls cancels the calls of a run that was cancelled, if this loop did not wait for them then: those that were parked before
// its log failed wait for a loop that does not come.
func (r *run) cancelCalls(ctx context.Context) {
	if !IsCancelled(ctx) || r.conv == nil || r.conv.open == nil || r.conv.open.id != r.id {
		return
	}
	if pending := r.conv.open.pending(); len(pending) > 0 {
		_ = r.runCalls(ctx, pending) // the runner cancels them
	}
}

// backOff returns the policy of all repetitions of a run.
func backOff(limit time.Duration) *backoff.ExponentialBackOff {
	return retry.Pauses(100*time.Millisecond, 5*time.Second, limit)
}

// untilEnd continues the run from its log until it has an end. A log may fail for
// outageTimeout at a time, however long the run has lasted before.
func (r *run) untilEnd(ctx context.Context) (Outcome, error) {
	policy := backOff(outageTimeout)
	var outcome Outcome
	err := retry.Do(ctx, policy, func(err error) bool { return !errors.Is(err, errLog) }, func(err error, _ time.Duration) {
		r.cfg.Log.Warn().Err(err).Str("session", r.session).Str("run", r.id).Msg("the run continues from its log")
	}, func() (err error) {
		outcome, err = r.attempt(ctx)
		if r.logWorked {
			r.logWorked = false
			policy.Reset()
		}
		return err
	})
	return outcome, err
}

// endSpan ends the span of a run. A run that goes on later, or elsewhere, has no outcome.
func endSpan(span trace.Span, o Outcome, err error) {
	code := ""
	switch {
	case isPause(err):
		code = "paused"
	case err != nil:
		code = "interrupted"
	case o.Reason != Done:
		code = string(o.Reason)
	}
	span.SetAttributes(tracing.Outcome.String(string(o.Reason)), tracing.Turns.Int(o.Turns), tracing.InputTokens.Int64(o.Usage.Input),
		tracing.OutputTokens.Int64(o.Usage.Output))
	tracing.End(span, code)
}

// attempt claims the session and continues the run from its log.
func (r *run) attempt(ctx context.Context) (Outcome, error) {
	o, err := r.claimAndLoop(ctx)
	if !errors.Is(err, ErrConflict) {
		return o, err
	}
	r.fenced = true
	return r.claimAndLoop(ctx)
}

func (r *run) claimAndLoop(ctx context.Context) (Outcome, error) {
	end, err := r.claimSession(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		r.cancelCalls(ctx)
		return r.interrupted(ctx)
	case err != nil:
		return Outcome{}, err
	case end != nil:
		return *end, nil
	}
	return r.loop(ctx)
}

// claimSession appends an entry that claims the session for this run. If the run
// has already ended, it returns the outcome instead. If another loop has continued it, it
// returns tools.ErrTakenOver: that loop may end it, and if its process has died, the bus
// delivers the call again. If this loop waited for the other one, it would look as if it
// ran the call.
func (r *run) claimSession(ctx context.Context) (*Outcome, error) {
	var seen uint64
	since, all := time.Now(), true
	for reads := 0; ; reads++ {
		r.step("read")
		if err := r.read(ctx, all); err != nil {
			return nil, err
		}
		r.logWorked = r.logWorked || reads > 0
		if end, ok := r.conv.ended[r.id]; ok {
			return end, nil
		}
		if r.fenced {
			return nil, tools.ErrTakenOver
		}
		if r.conv.last != seen {
			seen, since = r.conv.last, time.Now()
		}
		stale := time.Since(since) >= r.cfg.StaleAfter
		var err error
		switch open := r.conv.open; {
		case open == nil:
			if err = r.waitForEarlier(ctx, stale); err != nil {
				break
			}
			if !all { // the conversation may have been deleted meanwhile
				all = true
				continue
			}
			var prompt *Message
			if prompt, err = r.offloadPrompt(ctx); err != nil {
				break
			}
			err = r.appendClaim(ctx, Entry{Kind: KindUser, Message: prompt, Call: &r.call, Limits: &r.limits, Fresh: r.cfg.Fresh,
				ToolOutput: r.cfg.ToolOutput, Files: r.cfg.InstructionFiles})
		case open.id == r.id:
			r.keepTools()
			err = r.appendClaim(ctx, Entry{Kind: KindResumed})
		default:
			if err = r.abandon(ctx, open, stale); err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return nil, nil
		case errors.Is(err, ErrConflict):
			all = true
			continue
		case !errors.Is(err, errSessionBusy):
			return nil, err
		}
		all = false // the other run only adds entries
		tools.Detach(ctx)
		select {
		case <-time.After(r.cfg.PollInterval):
		case <-tools.Stopping(ctx):
			return nil, handedBack()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// abandon ends another run that was cancelled or that no process continues, so that its
// session is free again. It returns errSessionBusy if a process may continue the run.
func (r *run) abandon(ctx context.Context, open *runState, stale bool) error {
	call := RunKey(r.session, open.id, open.call)
	reason, err := r.endOf(ctx, call)
	if reason == "" && err == nil {
		err = r.waitForParked(ctx, call)
	}
	if reason == "" && err == nil && stale {
		running := false
		if r.cfg.IsRunning != nil {
			running, err = r.cfg.IsRunning(ctx, call)
		}
		if err != nil {
			err = fmt.Errorf("%w: check run %s: %w", errLog, open.id, err)
		} else if !running {
			reason = Abandoned
		}
	}
	switch {
	case err != nil:
		return err
	case reason == "":
		return errSessionBusy
	}
	r.cfg.Log.Warn().Str("session", r.session).Str("run", open.id).Str("reason", string(reason)).Msg("ending a run of this session, " +
		"because its call has ended or no worker continues it")
	end := open.outcome(reason, nil)
	return r.append(ctx, Entry{Kind: KindEnd, Run: open.id, End: &end})
}

// read reads all entries of the conversation, or those that were appended since the last read.
func (r *run) read(ctx context.Context, all bool) error {
	ctx, stop := withGrace(ctx, shutdownTimeout)
	defer stop()
	conv := r.conv
	if all {
		conv = newConversation()
	}
	log, last, err := r.log.Read(ctx, r.session, conv.last)
	if err != nil {
		return fmt.Errorf("%w: read conversation %s: %w", errLog, r.session, err)
	}
	entries, err := DecodeEntries(log)
	for _, e := range entries {
		conv.add(last, e)
	}
	r.conv = conv
	if err != nil {
		return fmt.Errorf("conversation %s: %w; delete the conversation, or use another session", r.session, err)
	}
	return nil
}

// append adds an entry of this run, unless the log has entries that the run has not
// read.
func (r *run) append(ctx context.Context, e Entry) error {
	e.Run, e.At = cmp.Or(e.Run, r.id), time.Now().UTC()
	if e.Kind == KindEnd {
		e.Total = &r.conv.total
	}
	data, err := jsonform.Encode(e)
	if err != nil {
		return fmt.Errorf("conversation %s: %w", r.session, err)
	}
	ctx, stop := withGrace(ctx, shutdownTimeout)
	defer stop()
	position, err := r.log.Append(ctx, r.session, r.conv.last, data)
	for errors.Is(err, ErrConflict) {
		onlyNotices, readErr := r.addNotices(ctx)
		if readErr != nil {
			return readErr
		}
		if !onlyNotices {
			break
		}
		position, err = r.log.Append(ctx, r.session, r.conv.last, data)
	}
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrTooLarge):
		return fmt.Errorf("append to conversation %s: %w", r.session, err)
	case err != nil:
		return fmt.Errorf("%w: append to conversation %s: %w", errLog, r.session, err)
	}
	r.logWorked = r.logWorked || e.Kind != KindUser && e.Kind != KindResumed
	// Keep the decoded entry, so that this loop sees the same as any other one.
	if e, err = DecodeEntry(data); err != nil {
		return err
	}
	r.conv.add(position, e)
	return nil
}

// withGrace returns a context that ends a while after ctx.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// interrupted ends a run whose context ended. If the process stops, it leaves the
// run to another process.
func (r *run) interrupted(ctx context.Context) (Outcome, error) {
	var reason Reason
	switch {
	case IsCancelled(ctx):
		reason = Cancelled
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		reason = Deadline
	default:
		return Outcome{}, fmt.Errorf("run %s of conversation %s was interrupted: %w", r.id, r.session, context.Cause(ctx))
	}
	if r.conv == nil || r.conv.open == nil || r.conv.open.id != r.id { // it has no entries yet
		return (&runState{}).outcome(reason, nil), nil
	}
	return r.finish(ctx, reason, nil)
}

// IsCancelled reports whether ctx ended because a client cancelled its call, and
// not because the process stops.
func IsCancelled(ctx context.Context) bool {
	cancelled, ok := errors.AsType[*tools.Error](context.Cause(ctx))
	return ok && cancelled.Code == tools.CodeCancelled
}
