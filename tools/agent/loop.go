package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// loop goes from what the log says to the next thing to do, until the run has
// an end. ErrConflict means that another loop has taken the run up, errLog that
// nobody knows what the log says now.
func (r *run) loop(ctx context.Context) (Outcome, error) {
	p := r.conv.open
	if p.grant != nil {
		r.grant = *p.grant
	}
	if limit := r.grant.TimeoutS; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, p.began.Add(time.Duration(limit)*time.Second))
		defer cancel()
	}
	for {
		missing, limit := p.missing(), r.limit(p)
		var err error
		switch {
		case ctx.Err() != nil:
			return r.broken(ctx)
		case len(missing) > 0 && p.stop == StopMaxTokens:
			err = r.refuse(ctx, missing, "the turn was cut off because it was too long, so the call may be incomplete; ask again, for less at once")
		case len(missing) > 0 && limit != "":
			err = r.refuse(ctx, missing, "the agent reached its limit")
		case len(missing) > 0:
			err = r.callTools(ctx, missing)
		case p.turns > 0 && len(p.uses) == 0 && p.stop != StopPause:
			return r.finish(ctx, reasonOf(p.stop), nil)
		case limit != "":
			return r.finish(ctx, limit, nil)
		default:
			err = r.ask(ctx)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrConflict), errors.Is(err, errLog):
			return Outcome{}, err
		case ctx.Err() != nil:
			return r.broken(ctx)
		default:
			return r.finish(ctx, Failed, err)
		}
	}
}

// limit is the one that p has reached, or empty.
func (r *run) limit(p *progress) Reason {
	switch g := r.grant; {
	case p.turns >= g.MaxTurns:
		return TurnLimit
	case g.TokenBudget > 0 && p.total() >= g.TokenBudget:
		return TokenBudget
	}
	return ""
}

func reasonOf(stop StopReason) Reason {
	switch stop {
	case StopMaxTokens, "model_context_window_exceeded":
		return Truncated
	case StopRefusal:
		return Refused
	}
	return Done
}

// ask gets the next turn and logs it as it came. From then on nobody asks for
// it again.
func (r *run) ask(ctx context.Context) error {
	if err := r.lighten(ctx); err != nil {
		return err
	}
	r.cfg.OnStep(StepAsk)
	r.tell(ctx, r.conv.open.turns+1, "asking the model")
	res, err := r.provider.Complete(ctx, r.request())
	if refused, ok := errors.AsType[*ProviderError](err); ok && refused.Code == CodeContextOverflow {
		// The estimate was wrong; the provider knows better.
		size := r.request().EstimateTokens(r.cfg.Counter)
		freed, shelveErr := r.shelve(ctx, size, size/2)
		if shelveErr != nil {
			return shelveErr
		}
		if freed > 0 {
			res, err = r.provider.Complete(ctx, r.request())
		}
	}
	if err != nil {
		return err
	}
	r.cfg.OnStep(StepLogTurn)
	err = r.append(ctx, Entry{
		Kind: KindAssistant, Message: &Message{Role: RoleAssistant, Content: res.Content},
		StopReason: res.StopReason, Usage: &res.Usage, Model: res.Model,
	})
	if errors.Is(err, ErrTooLarge) {
		return &ProviderError{Code: CodeBadAnswer, Message: "the turn is too large for the log of the conversation; lower the maximum tokens of a turn"}
	}
	return err
}

// tell reports to whoever watches the run.
func (r *run) tell(ctx context.Context, turn int, what string) {
	tools.ReportProgress(ctx, tools.Progress{Message: fmt.Sprintf("turn %d: %s", turn, what), Done: float64(turn - 1), Total: float64(r.grant.MaxTurns)})
}

func (r *run) request() Request {
	return Request{System: r.cfg.System, Messages: r.conv.messages(), Tools: r.cfg.Tools, MaxTokens: r.cfg.MaxTokens}
}

// finish writes the run's end.
func (r *run) finish(ctx context.Context, reason Reason, cause error) (Outcome, error) {
	r.cfg.OnStep(StepEnd)
	end := r.outcome(r.conv.open, reason, cause)
	if err := r.append(ctx, Entry{Kind: KindEnd, End: &end}); err != nil {
		return Outcome{}, errors.Join(err, cause)
	}
	r.cfg.OnStep(StepEnded)
	r.cfg.Log.Info().Str("session", r.session).Str("run", r.id).Str("reason", string(reason)).Int("turns", end.Turns).
		Int64("input_tokens", end.Usage.Input).Int64("output_tokens", end.Usage.Output).Msg("agent run ended")
	return end, nil
}

func (r *run) outcome(p *progress, reason Reason, cause error) Outcome {
	o := Outcome{Reason: reason, Reply: p.text, Turns: p.turns, Usage: p.usage, SubagentTokens: p.spent, Tools: maps.Clone(p.tools)}
	if cause != nil {
		o.Error = &tools.EventError{Code: errorCode(cause), Message: cause.Error()}
	}
	switch {
	case reason == Truncated && o.Reply != "":
		o.ForUser = fmt.Sprintf("%s\n\n(%s)", o.Reply, o.Err())
	case reason != Done:
		o.ForUser = o.Err().Error()
	case p.final != nil && !p.final.Silent && p.final.ForUser != "":
		o.ForUser = p.final.ForUser
	default:
		o.ForUser = o.Reply
	}
	return o
}

func errorCode(err error) string {
	if refused, ok := errors.AsType[*ProviderError](err); ok {
		return refused.Code
	}
	if errors.Is(err, ErrTooLarge) {
		return "too_large"
	}
	return tools.CodeOf(err)
}
