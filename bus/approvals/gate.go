// Package approvals asks people whether calls may run, and stores their answers.
package approvals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// Rules say which calls need a person's approval and how to ask for it.
type Rules struct {
	// Needed reports whether a call needs an approval. Nil means that none does.
	Needed func(tools.Call) bool
	// Timeout is how long a call waits for the answer. Default a day.
	Timeout time.Duration
	// Ask, if not nil, asks the user. It may be called again for the same call.
	Ask func(ctx context.Context, approval Approval) error
}

// Gate decides for a worker which calls may run.
type Gate struct {
	Rules
	Bus *bus.Bus
	Log zerolog.Logger
	// Expand returns the call as its tool gets it, which is what the rules are for. Check returns an
	// error for a call that cannot run: nobody is asked about it.
	Expand func(context.Context, *task.Delivered) (tools.Call, error)
	Check  func(tools.Call) error
}

// Decision is what a Gate decided of a call. The zero value lets it run without an approval.
type Decision struct {
	Approved bool          // a person approved it
	Denied   *tools.Result // why it must not run
	Question *task.Parked  // the wait for an answer
}

// Decide decides whether a call may run.
func (g *Gate) Decide(ctx context.Context, d *task.Delivered) (Decision, error) {
	asked, call := d.Resumed.State == task.InputRequired, d.Call // an answer also counts for a worker whose own rules need none
	switch {
	case d.Raw != nil, !asked && g.Needed == nil:
		return Decision{}, nil
	case !asked:
		var err error
		if call, err = g.Expand(ctx, d); err != nil {
			return Decision{Denied: tools.Failure(err)}, nil
		}
		if !g.Needed(call) || g.Check(call) != nil {
			return Decision{}, nil
		}
	}
	var answer *task.Answer
	err := retry.Log(ctx, g.Log, "cannot read the answer to a question", 0, bus.IsClosed, func() error {
		r, err := task.ChangeRecord(ctx, g.Bus, d.Key, func(r *task.Record) error {
			if r.Answer != nil || !asked {
				return task.ErrUnchanged
			}
			r.Answer = &task.Answer{At: time.Now().UTC(), Digest: d.Digest, Expired: true} // the time has passed
			return nil
		})
		answer = r.Answer
		return err
	})
	switch {
	case err != nil:
		return Decision{}, err
	case answer == nil:
		question, err := g.question(d, call)
		return Decision{Question: question}, err
	case answer.Approve:
		return Decision{Approved: true}, d.Check(answer.Digest)
	}
	return Decision{Denied: denied(d.Call.Tool, *answer)}, d.Check(answer.Digest)
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

// question returns the wait of a call for its approval.
func (g *Gate) question(d *task.Delivered, call tools.Call) (*task.Parked, error) {
	p := &task.Parked{
		State: task.InputRequired, Reason: "waiting for an approval", Until: time.Now().Add(cmp.Or(max(g.Timeout, 0), 24*time.Hour)),
	}
	var err error
	if !bytes.Equal(call.Args, d.Call.Args) {
		p.Shown, err = ShownArgs(call.Args)
	}
	return p, err
}

// maxShownArgs is how much of each argument a question shows, in bytes.
const maxShownArgs = 2000

// ShownArgs returns arguments as a question shows them: all of them, and the start of long ones.
func ShownArgs(args json.RawMessage) (json.RawMessage, error) {
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

// askTimeout is how long a question is repeated that cannot be sent.
const askTimeout = time.Minute

// AskAbout asks the user about a parked call, if it waits for an approval. If the worker dies before
// it acknowledges the call, the redelivery asks again. A question that cannot be sent does not end
// the call: it waits, and "stevedore approvals ls" and the web page show it.
func (g *Gate) AskAbout(ctx context.Context, p task.Parked) error {
	if p.State != task.InputRequired || g.Ask == nil {
		return nil
	}
	final := func(err error) bool {
		_, refused := errors.AsType[*tools.Error](err)
		_, rejected := consume.Rejected(err)
		return refused || rejected
	}
	err := retry.Log(ctx, g.Log, "cannot ask for an approval", askTimeout, final, func() error { return g.Ask(ctx, questionOf(p)) })
	if err != nil && ctx.Err() == nil {
		k := p.Key()
		g.Log.Error().Err(err).Str("call", k.ID).Str("session", k.Session).Str("tool", p.Call.Tool).Msg("the user was not asked for an " +
			"approval; the call waits for one")
		return nil
	}
	return err
}
