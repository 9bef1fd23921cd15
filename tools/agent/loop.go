package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// loop takes the next step that follows from the log until the run has an end.
// ErrConflict means that another loop has the run now; errLog means that the log
// must be read again.
func (r *run) loop(ctx context.Context) (Outcome, error) {
	s := r.conv.open
	if s.limits != nil {
		r.limits = *s.limits
	}
	if timeout := r.limits.TimeoutS; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.started.Add(time.Duration(timeout)*time.Second))
		defer cancel()
	}
	for {
		pending, limit := s.pending(), r.limitReached(s)
		var err error
		switch {
		case ctx.Err() != nil:
			r.cancelCalls(ctx)
			return r.interrupted(ctx)
		case isStopping(ctx):
			return Outcome{}, handedBack(s.keysOf(r.session, pending)...)
		case len(pending) > 0 && reasonOf(s.stop) != Done:
			err = r.rejectCalls(ctx, pending, fmt.Sprintf("the turn ended early (%s), so the call may be incomplete and did not run; if it was too long, repeat it in a shorter turn", s.stop))
		case len(pending) > 0 && limit != "":
			err = r.rejectCalls(ctx, pending, "the agent reached its limit")
		case len(pending) > 0:
			err = r.runCalls(ctx, pending)
		case s.turns > 0 && len(s.calls) == 0 && s.stop != StopPause:
			return r.finish(ctx, reasonOf(s.stop), nil)
		case limit != "":
			return r.finish(ctx, limit, nil)
		default:
			err = r.askModel(ctx)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrConflict), errors.Is(err, errLog):
			return Outcome{}, err
		case isPause(err) && (ctx.Err() == nil || IsCancelled(ctx)): // who parks a cancelled run cancels the calls that it waits for
			return Outcome{}, err
		case ctx.Err() != nil:
			return r.interrupted(ctx)
		case tools.CodeOf(err) == CodeCostBudget:
			return r.finish(ctx, costBudget, err)
		default:
			return r.waitOrFail(ctx, err)
		}
	}
}

// checkBudget returns an error if the run may ask its model no more. An error of the storage
// makes the loop read the log again.
func (r *run) checkBudget(ctx context.Context) error {
	if r.cfg.CheckBudget == nil {
		return nil
	}
	err := r.cfg.CheckBudget(ctx, r.session)
	if err != nil && tools.CodeOf(err) != CodeCostBudget {
		return fmt.Errorf("%w: %w", errLog, err)
	}
	return err
}

// limitReached returns the limit that the run has reached, or "".
func (r *run) limitReached(s *runState) Reason {
	switch l := r.limits; {
	case s.turns >= l.MaxTurns:
		return TurnLimit
	case l.TokenBudget > 0 && s.totalTokens() >= l.TokenBudget:
		return TokenBudget
	}
	return ""
}

// askModel gets the next turn and logs it unchanged, but for blank texts. No loop asks for
// a logged turn again.
func (r *run) askModel(ctx context.Context) error {
	if err := r.checkBudget(ctx); err != nil {
		return err
	}
	if err := r.offloadArguments(ctx); err != nil {
		return err
	}
	if err := r.shrinkHistory(ctx); err != nil {
		return err
	}
	r.step("ask")
	r.reportProgress(ctx, r.conv.open.turns+1, "asking the model")
	res, err := r.ask(ctx, r.request())
	for isOverflow(err) {
		// The estimate was too low, so halve the history.
		size := r.request().EstimateTokens()
		shrunk, shrinkErr := r.shrinkTo(ctx, size, size/2, size*3/4)
		if shrinkErr != nil {
			return shrinkErr
		}
		if !shrunk {
			break
		}
		res, err = r.ask(ctx, r.request())
	}
	if err != nil {
		return err
	}
	res.Content = slices.DeleteFunc(slices.Clone(res.Content), Block.isBlank)
	r.step("log_turn")
	err = r.append(ctx, Entry{
		Kind: KindAssistant, Message: &Message{Role: RoleAssistant, Content: res.Content},
		StopReason: res.StopReason, Usage: &res.Usage, Model: res.Model,
	})
	if errors.Is(err, ErrTooLarge) {
		return errTurnTooLarge
	}
	return err
}

var errTurnTooLarge = &ProviderError{Code: CodeBadAnswer, Message: "the turn is too large for the log of the conversation; lower the maximum tokens of a turn"}

func isOverflow(err error) bool {
	failure, ok := errors.AsType[*ProviderError](err)
	return ok && failure.Code == CodeContextOverflow
}

func (r *run) request() Request {
	req := r.requestFor(r.conv.messages())
	req.ReplacedTurns = r.conv.replaced().Turns
	return req
}

func (r *run) requestFor(messages []Message) Request {
	return Request{System: r.cfg.System, Messages: messages, Tools: r.cfg.Tools, MaxTokens: r.cfg.MaxTokens,
		Probe: len(r.conv.open.waits) > 0}
}

// finish logs the run's end.
func (r *run) finish(ctx context.Context, reason Reason, cause error) (Outcome, error) {
	r.step("end")
	end := r.conv.open.outcome(reason, cause)
	if res := r.conv.open.lastOutput(end); res != nil {
		if err := r.sendOutput(ctx, *res); err != nil {
			return Outcome{}, errors.Join(err, cause)
		}
	}
	err := r.append(ctx, Entry{Kind: KindEnd, End: &end})
	if errors.Is(err, ErrTooLarge) && cause == nil { // the entry has the reply twice; the turn has it once
		return r.finish(ctx, Failed, errTurnTooLarge)
	}
	if err != nil {
		return Outcome{}, errors.Join(err, cause)
	}
	r.step("ended")
	r.cfg.Log.Info().Str("session", r.session).Str("run", r.id).Str("reason", string(reason)).Int("turns", end.Turns).
		Int64("input_tokens", end.Usage.Input).Int64("output_tokens", end.Usage.Output).Msg("agent run ended")
	return end, nil
}
