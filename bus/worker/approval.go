package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// Approvals says which calls need a person's approval and how to ask for it.
type Approvals struct {
	// Needed reports whether a call needs an approval. Nil means that none does.
	Needed func(tools.Call) bool
	// Timeout is how long a call waits for the answer. Default a day.
	Timeout time.Duration
	// Ask, if not nil, asks the user. It may be called again for the same call.
	Ask func(ctx context.Context, approval task.Approval) error
}

// defaultApprovalTimeout is the default of Approvals.Timeout.
const defaultApprovalTimeout = 24 * time.Hour

// approve returns ended false if the call may run. If a person must answer first, it parks
// the call. If the answer is no, it publishes an error result.
func (w *Worker) approve(ctx context.Context, a *attempt) (ended bool, err error) {
	// An answer also counts for a worker whose own rules need none.
	needed := a.parkedState == task.InputRequired || w.cfg.Approvals.Needed != nil && w.cfg.Approvals.Needed(a.call)
	if a.raw != nil || !needed || w.registry.Check(a.call) != nil {
		return false, nil
	}
	var answer *task.Answer
	err = w.readWithRetry(ctx, func() error {
		record, err := task.ReadRecord(ctx, w.bus, a.key)
		if answer = record.Answer; answer == nil && a.parkedState == task.InputRequired && err == nil { // the time has passed
			var expired task.Answer
			expired, err = task.WriteAnswer(ctx, w.bus, a.key, task.Answer{At: time.Now().UTC(), Digest: a.digest, Expired: true})
			answer = &expired
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if answer == nil {
		return true, w.askAndPark(ctx, a)
	}
	if err := a.checkDigest(answer.Digest); err != nil {
		return false, err
	}
	if a.approved = answer.Approve; a.approved {
		return false, nil
	}
	return true, w.offloadAndPublish(ctx, a, denied(a.call.Tool, *answer))
}

// askAndPark asks for an approval and parks the call until the deadline of the answer.
func (w *Worker) askAndPark(ctx context.Context, a *attempt) error {
	timeout := w.cfg.Approvals.Timeout
	if timeout <= 0 {
		timeout = defaultApprovalTimeout
	}
	p := task.Parked{State: task.InputRequired, Reason: "waiting for an approval", Until: time.Now().Add(timeout)}
	p, err := w.park(ctx, a, p)
	if errors.Is(err, bus.ErrTooLarge) {
		res := tools.Failure(tools.Errorf(tools.CodeDenied, "The call of %s did not run: it needs an approval, but it is too large to wait for one.", a.call.Tool))
		return w.offloadAndPublish(ctx, a, res)
	}
	if err != nil {
		return err
	}
	return w.ask(ctx, p)
}

// askTimeout is how long a question is repeated that cannot be sent.
const askTimeout = time.Minute

// ask asks the user about a parked call. If the worker dies before it acknowledges the
// call, the redelivery asks again. A question that cannot be sent does not end the call:
// it waits, and "stevedore approvals ls" and the web page show it.
func (w *Worker) ask(ctx context.Context, p task.Parked) error {
	if p.State != task.InputRequired || w.cfg.Approvals.Ask == nil {
		return nil
	}
	final := func(err error) bool {
		_, refused := errors.AsType[*tools.Error](err)
		_, rejected := bus.Rejected(err)
		return refused || rejected || errors.Is(err, bus.ErrTooLarge)
	}
	err := w.retry(ctx, "cannot ask for an approval", askTimeout, final, func() error {
		return w.cfg.Approvals.Ask(ctx, task.ApprovalOf(p))
	})
	if err != nil && ctx.Err() == nil {
		k := p.Key()
		w.log.Error().Err(err).Str("call", k.ID).Str("session", k.Session).Str("tool", p.Call.Tool).Msg("the user was not asked for an approval; the call waits for one")
		return nil
	}
	return err
}

// denied is the result of a call that was not approved.
func denied(tool string, answer task.Answer) *tools.Result {
	text := fmt.Sprintf("The call of %s did not run: the user denied it.", tool)
	if answer.Expired {
		text = fmt.Sprintf("The call of %s did not run: it needed an approval, and nobody answered in time.", tool)
	}
	if answer.Reason != "" {
		text += " Reason: " + answer.Reason
	}
	return tools.Failure(tools.Errorf(tools.CodeDenied, "%s", text))
}
