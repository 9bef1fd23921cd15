package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
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

// approve returns ended false if the call may run. If a person must answer first, it parks
// the call. If the answer is no, it publishes an error result.
func (w *Worker) approve(ctx context.Context, a *attempt) (ended bool, err error) {
	if a.Raw != nil {
		return false, nil
	}
	var shown json.RawMessage
	needed := a.Resumed.State == task.InputRequired // an answer also counts for a worker whose own rules need none
	if !needed && w.cfg.Approvals.Needed != nil {
		call, err := w.artifacts.expand(ctx, a.Delivered) // the rules and the schema are for what the tool gets
		if err != nil {
			return true, w.results.store(ctx, a, tools.Failure(err))
		}
		needed = w.cfg.Approvals.Needed(call) && w.registry.Check(call) == nil
		if needed && !bytes.Equal(call.Args, a.Call.Args) {
			if shown, err = shownArgs(call.Args); err != nil {
				return false, err
			}
		}
	}
	if !needed {
		return false, nil
	}
	var answer *task.Answer
	err = retry.Log(ctx, w.log, "cannot read the answer to a question", 0, bus.IsClosed, func() error {
		if a.Resumed.State == task.InputRequired { // it was answered, or the time has passed
			stored, err := task.WriteAnswer(ctx, w.bus, a.Key, task.Answer{At: time.Now().UTC(), Digest: a.Digest, Expired: true})
			answer = &stored
			return err
		}
		record, err := task.ReadRecord(ctx, w.bus, a.Key)
		answer = record.Answer
		return err
	})
	if err != nil {
		return false, err
	}
	if answer == nil {
		return true, w.askAndPark(ctx, a, shown)
	}
	if err := a.Check(answer.Digest); err != nil {
		return false, err
	}
	if a.approved = answer.Approve; a.approved {
		return false, nil
	}
	return true, w.results.store(ctx, a, denied(a.Call.Tool, *answer))
}

// askAndPark asks for an approval and parks the call until the deadline of the answer. The
// question has the arguments shown, or those of the call if shown is nil.
func (w *Worker) askAndPark(ctx context.Context, a *attempt, shown json.RawMessage) error {
	timeout := cmp.Or(max(w.cfg.Approvals.Timeout, 0), 24*time.Hour)
	p := task.Parked{State: task.InputRequired, Reason: "waiting for an approval", Until: time.Now().Add(timeout), Shown: shown}
	err := w.parking.park(ctx, a, p)
	if errors.Is(err, bus.ErrTooLarge) {
		res := tools.Failure(tools.Errorf(tools.CodeDenied, "The call of %s did not run: it needs an approval, but it is too large to wait for one.", a.Call.Tool))
		return w.results.store(ctx, a, res)
	}
	return err
}

// askTimeout is how long a question is repeated that cannot be sent.
const askTimeout = time.Minute

// ask asks the user about a parked call. If the worker dies before it acknowledges the
// call, the redelivery asks again. A question that cannot be sent does not end the call:
// it waits, and "stevedore approvals ls" and the web page show it.
func (p *parking) ask(ctx context.Context, parked task.Parked) error {
	if parked.State != task.InputRequired || p.approvals.Ask == nil {
		return nil
	}
	final := func(err error) bool {
		_, refused := errors.AsType[*tools.Error](err)
		_, rejected := bus.Rejected(err)
		return refused || rejected || errors.Is(err, bus.ErrTooLarge)
	}
	err := retry.Log(ctx, p.log, "cannot ask for an approval", askTimeout, final, func() error {
		return p.approvals.Ask(ctx, task.ApprovalOf(parked))
	})
	if err != nil && ctx.Err() == nil {
		k := parked.Key()
		p.log.Error().Err(err).Str("call", k.ID).Str("session", k.Session).Str("tool", parked.Call.Tool).Msg("the user was not asked for an " +
			"approval; the call waits for one")
		return nil
	}
	return err
}

// maxShownArgs is how much of each argument a question shows, in bytes.
const maxShownArgs = 2000

// shownArgs returns arguments as a question shows them: all of them, and the start of long ones.
func shownArgs(args json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(args, &fields); err != nil {
		return nil, err
	}
	for name, value := range fields {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		if len(text) <= maxShownArgs {
			continue
		}
		start, err := bus.Encode(fmt.Sprintf("%s\n(This is only the start of %d bytes.)", tools.Excerpt(text, maxShownArgs), len(text)))
		if err != nil {
			return nil, err
		}
		fields[name] = start
	}
	return bus.Encode(fields)
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
