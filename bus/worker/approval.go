package worker

import (
	"context"
	"fmt"
	"time"

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
	answer, ok, err := w.readAnswer(ctx, a)
	if err != nil {
		return false, err
	}
	if !ok && a.parkedState == task.InputRequired { // the time has passed
		answer, err = w.writeExpired(ctx, a)
		if err != nil {
			return false, err
		}
		ok = true
	}
	if !ok {
		return true, w.askAndPark(ctx, a)
	}
	if err := a.checkDigest(answer.Digest); err != nil {
		return false, err
	}
	if answer.Approve {
		return false, nil
	}
	return true, w.offloadAndPublish(ctx, a, denied(a.call.Tool, answer))
}

// askAndPark asks for an approval and parks the call until the deadline of the answer.
func (w *Worker) askAndPark(ctx context.Context, a *attempt) error {
	timeout := w.cfg.Approvals.Timeout
	if timeout <= 0 {
		timeout = defaultApprovalTimeout
	}
	p := task.Parked{Call: a.call, State: task.InputRequired, Reason: "waiting for an approval", Since: time.Now().UTC(), Until: time.Now().UTC().Add(timeout)}
	if deadline := a.call.Deadline; !deadline.IsZero() && deadline.Before(p.Until) {
		p.Until = deadline.UTC()
	}
	w.log.Info().Str("call", a.key.id).Str("session", a.key.session).Str("tool", a.call.Tool).Time("deadline", p.Until).Msg("call waits for an approval")
	if err := w.park(ctx, a, p); err != nil {
		return err
	}
	return w.ask(ctx, p)
}

// ask asks the user about a parked call. If the worker dies before it acknowledges the
// call, the redelivery asks again.
func (w *Worker) ask(ctx context.Context, p task.Parked) error {
	if p.State != task.InputRequired || w.cfg.Approvals.Ask == nil {
		return nil
	}
	return w.cfg.Approvals.Ask(ctx, task.ApprovalOf(p))
}

func (w *Worker) readAnswer(ctx context.Context, a *attempt) (answer task.Answer, ok bool, err error) {
	err = w.readWithRetry(ctx, func() (err error) {
		answer, ok, err = task.ReadAnswer(ctx, w.bus, a.key.callKey())
		return err
	})
	return answer, ok, err
}

// writeExpired stores a no because nobody answered, and returns the answer that counts.
func (w *Worker) writeExpired(ctx context.Context, a *attempt) (answer task.Answer, err error) {
	err = w.readWithRetry(ctx, func() (err error) {
		answer, _, err = task.WriteAnswer(ctx, w.bus, a.key.callKey(), task.Answer{At: time.Now().UTC(), Digest: a.digest, Expired: true})
		return err
	})
	return answer, err
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
