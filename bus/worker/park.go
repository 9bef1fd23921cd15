package worker

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// parking parks calls whose tool returns a tools.Pause, or that wait for an approval. The record
// of a parked call replaces its message, so that it holds no worker, no slot and no place in the
// calls stream. Each worker follows all records (task.Follower) and publishes a call again
// when its wait is over.
type parking struct {
	bus       *bus.Bus
	records   *task.Follower
	artifacts *artifacts
	worker    string // its name
	gate      *approvals.Gate
	log       zerolog.Logger
}

// unparkable is how long a call waits that does not fit into a record.
const unparkable = 10 * time.Minute

// pause parks a call whose tool returned a pause.
func (p *parking) pause(ctx context.Context, a *attempt, pause *tools.Pause) (*tools.Result, error) {
	parked := task.Parked{
		State: task.Waiting, Started: a.Resumed.Started, Reason: pause.Reason, Until: pause.Until, WaitsFor: pause.WaitsFor, Made: pause.Made,
	}
	if pause.Err != nil {
		parked.Detail = pause.Err.Error()
	}
	res, err := p.park(ctx, a, parked)
	if errors.Is(err, bus.ErrTooLarge) { // its message stays in the stream
		err = consume.RetryAfter(min(max(time.Until(pause.Until), time.Second), unparkable), nil)
	}
	return res, err
}

// approve returns neither a result nor an error if the call may run. If a person must answer
// first, it parks the call. If the answer is no, it returns the result that says so.
func (p *parking) approve(ctx context.Context, a *attempt) (denied *tools.Result, err error) {
	decision, err := p.gate.Decide(ctx, a.Delivered)
	if a.approved = decision.Approved; err != nil || decision.Question == nil {
		return decision.Denied, err
	}
	cancelled, err := p.park(ctx, a, *decision.Question)
	if errors.Is(err, bus.ErrTooLarge) {
		return tools.Failure(tools.Errorf(tools.CodeDenied, "The call of %s did not run: it needs an approval, but it is too large to wait for one.",
			a.Call.Tool)), nil
	}
	return cancelled, err
}

// largeArgs is the share of the server's limit for a message above which the arguments of a
// parked call are kept in an artifact: the answer and the rest of the record need space too.
const largeArgs = 2

// park parks a call, and asks the user if it waits for an approval. Then it returns errDone. It
// returns a result if the call was cancelled. bus.ErrTooLarge means that the call does not fit
// into a record.
func (p *parking) park(ctx context.Context, a *attempt, parked task.Parked) (cancelled *tools.Result, err error) {
	parked.Call, parked.Digest, parked.Queue, parked.Worker = a.Call, a.Digest, a.Queue, p.worker
	parked.Traceparent, parked.Order = a.Traceparent(), a.Order()
	parked.Since, parked.Until = time.Now().UTC(), parked.Until.UTC()
	if soon := parked.Since.Add(task.LookAgain); len(parked.WaitsFor) > 0 && parked.Until.Before(soon) {
		parked.Until = soon
	}
	if deadline := a.Call.Deadline; !deadline.IsZero() && deadline.Before(parked.Until) {
		parked.Until = deadline.UTC()
	}
	if len(a.Call.Args) > int(p.bus.Conn().MaxPayload())/largeArgs { // the record has what a question shows of them
		if parked.ArgsIn, err = p.artifacts.keepArgs(ctx, a.Delivered); err == nil {
			parked.Call.Args, err = approvals.ShownArgs(a.Call.Args)
		}
		if err != nil {
			return nil, err
		}
	}
	final := func(err error) bool {
		code := tools.CodeOf(err)
		return errors.Is(err, bus.ErrTooLarge) || code == tools.CodeCancelled || code == tools.CodeMismatch
	}
	err = retry.Log(ctx, p.log, "cannot park a call", 0, final, func() (err error) {
		parked.Number, err = task.Park(ctx, p.bus, parked)
		return err
	})
	switch {
	case tools.CodeOf(err) == tools.CodeMismatch:
		return nil, consume.Reject(tools.CodeMismatch, err)
	case tools.CodeOf(err) == tools.CodeCancelled:
		return tools.Failure(errCancelled), nil
	case err != nil:
		return nil, err
	}
	p.log.Info().Str("call", a.Key.ID).Str("session", a.Key.Session).Str("tool", a.Call.Tool).Str("reason", parked.Reason).
		Time("until", parked.Until).Msg("call parked")
	p.records.Add(parked)
	if a.startCounted { // a start that ended in a pause is not a failed attempt
		if err := task.CountStart(ctx, p.bus, a.Key, -1); err != nil {
			p.log.Warn().Err(err).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("a paused attempt counts")
		}
	}
	return nil, done(p.gate.AskAbout(ctx, parked))
}
