package worker

import (
	"context"
	"encoding/json"
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
	if a.approved = answer.Approve; a.approved {
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
	err := w.park(ctx, a, p)
	held := errors.Is(err, bus.ErrTooLarge)
	if held {
		p.Held, p.Call.Args = a.digest, shortArgs(a.call.Args)
		err = w.park(ctx, a, p)
	}
	if errors.Is(err, bus.ErrTooLarge) {
		res := tools.Failure(tools.Errorf(tools.CodeDenied, "The call of %s did not run: it needs an approval, but it is too large to wait for one.", a.call.Tool))
		return w.offloadAndPublish(ctx, a, res)
	}
	if err != nil {
		return err
	}
	if err := w.ask(ctx, p); err != nil || !held {
		return err
	}
	return handOn(0) // step 4 holds the call
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

// maxHeldArgs is how much of the arguments a question about a held call shows, in bytes.
const maxHeldArgs = 2000

// shortArgs returns the start of arguments that are too large for a record.
func shortArgs(args json.RawMessage) json.RawMessage {
	text := fmt.Sprintf("%s\n(This is only the start of %d bytes of arguments.)", tools.Excerpt(string(args), maxHeldArgs), len(args))
	short, err := bus.Encode(map[string]string{"arguments": text})
	if err != nil {
		return nil
	}
	return short
}

// heldInterval is how often a worker checks whether a held call was answered.
const heldInterval = 250 * time.Millisecond

// awaitHeld waits until a held call was answered, its time has passed, or its record is gone
// because the call was cancelled: then ended is true. Waiting uses no slot.
func (w *Worker) awaitHeld(ctx context.Context, a *attempt, p task.Parked) (ended bool, err error) {
	for {
		answered, parked := w.parked.Answered(a.key.callKey())
		switch {
		case !parked:
			return w.hasFinalResult(ctx, a)
		case answered:
			a.parkedRevision, a.parkedState, a.held = p.Revision, p.State, &p
			return false, nil
		}
		if err := w.detachAndWait(ctx, a, after(heldInterval)); err != nil {
			return false, err
		}
	}
}

// forgetHeld removes the record of a held call that has ended.
func (w *Worker) forgetHeld(ctx context.Context, a *attempt) {
	if a.held == nil {
		return
	}
	if err := task.Unpark(ctx, w.bus, *a.held); err != nil {
		w.log.Warn().Err(err).Str("call", a.key.id).Str("session", a.key.session).Msg("the record of a held call remains")
	}
}

// forgetQuestion removes the record of a call that became a dead letter while it waited for
// an approval. The record of another call with its id stays.
func (w *Worker) forgetQuestion(ctx context.Context, a *attempt) error {
	p, ok := w.parked.Find(a.key.callKey())
	if !ok || p.State != task.InputRequired || p.Digest() != a.digest {
		return nil
	}
	return task.Unpark(ctx, w.bus, p)
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
