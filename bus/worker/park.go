package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A call whose tool returns a tools.Pause, or that waits for an approval, is parked: its
// record replaces its message, so that it holds no worker, no slot and no place in the
// calls stream. Each worker follows all records (task.Follower) and publishes a call again
// when its wait is over.

// unparkable is how long a call waits that does not fit into a record.
const unparkable = 10 * time.Minute

// isParked reports whether the record of a parked call replaces this delivery, so that
// nothing is left to do with it: the delivery is older than the record.
func (w *Worker) isParked(ctx context.Context, a *attempt) (bool, error) {
	p, ok := w.records.Find(a.key)
	if !ok || a.raw != nil || a.resumed.Number >= p.Number {
		return false, nil
	}
	if err := a.checkDigest(p.Digest); err != nil {
		return true, err
	}
	return true, w.ask(ctx, p)
}

// pauseOf returns the pause that the tool asks for with its result. A once-only tool gets none.
// A call that was cancelled or has no time left gets one only if it made the calls that it
// waits for: Park then cancels them.
func (a *attempt) pauseOf(toolCtx context.Context, res *tools.Result) (*tools.Pause, bool) {
	pause, ok := tools.PauseOf(res.Err)
	return pause, ok && res.IsError && !a.once() && (toolCtx.Err() == nil || pause.Made)
}

// pause parks a call whose tool returned a pause.
func (w *Worker) pause(ctx context.Context, a *attempt, p *tools.Pause) error {
	parked := task.Parked{State: task.Waiting, Started: a.resumed.Started, Reason: p.Reason, Until: p.Until, WaitsFor: p.WaitsFor, Made: p.Made}
	if p.Err != nil {
		parked.Detail = p.Err.Error()
	}
	err := w.park(ctx, a, parked)
	if errors.Is(err, bus.ErrTooLarge) { // its message stays in the stream
		return bus.RetryAfter(min(max(time.Until(p.Until), time.Second), unparkable), nil)
	}
	return err
}

// largeArgs is the share of the server's limit for a message above which the arguments of a
// parked call are kept in an artifact: the answer and the rest of the record need space too.
const largeArgs = 2

// park parks a call, and asks the user if it waits for an approval. If it returns no error,
// handle can acknowledge the call. bus.ErrTooLarge means that the call does not fit into a
// record.
func (w *Worker) park(ctx context.Context, a *attempt, p task.Parked) error {
	p.Call, p.Digest, p.Queue, p.Worker, p.Traceparent = a.call, a.digest, a.queue, w.cfg.Name, a.delivery.Traceparent()
	p.Since, p.Until, p.Order = time.Now().UTC(), p.Until.UTC(), a.delivery.Order()
	if deadline := a.call.Deadline; !deadline.IsZero() && deadline.Before(p.Until) {
		p.Until = deadline.UTC()
	}
	if len(a.call.Args) > int(w.bus.Conn().MaxPayload())/largeArgs {
		if err := w.storeArgs(ctx, a, &p); err != nil {
			return err
		}
	}
	err := w.retry(ctx, "cannot park a call", 0, func(err error) bool {
		code := tools.CodeOf(err)
		return errors.Is(err, bus.ErrTooLarge) || code == tools.CodeCancelled || code == tools.CodeMismatch
	}, func() (err error) {
		p.Number, err = task.Park(ctx, w.bus, p)
		return err
	})
	if tools.CodeOf(err) == tools.CodeMismatch {
		return bus.Reject(tools.CodeMismatch, err)
	}
	if tools.CodeOf(err) == tools.CodeCancelled {
		return w.offloadAndPublish(ctx, a, tools.Failure(errCancelled))
	}
	if err != nil {
		return err
	}
	w.log.Info().Str("call", a.key.ID).Str("session", a.key.Session).Str("tool", a.call.Tool).Str("reason", p.Reason).Time("until", p.Until).Msg("call parked")
	w.records.Add(p)
	if a.startCounted { // a start that ended in a pause is not a failed attempt
		if err := task.CountStart(ctx, w.bus, a.key, -1); err != nil {
			w.log.Warn().Err(err).Str("call", a.key.ID).Str("session", a.key.Session).Msg("a paused attempt counts")
		}
	}
	return w.ask(ctx, p)
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

// storeArgs keeps the arguments of a call in an artifact, and what a question shows of them in
// the record.
func (w *Worker) storeArgs(ctx context.Context, a *attempt, p *task.Parked) error {
	call := tools.Call{ID: "args-" + a.key.ID, Session: a.call.Session, Tool: a.call.Tool, Offload: new(true)}
	res, err := w.offloadResult(ctx, call, a.def, tools.NewToolResult(string(a.call.Args)))
	if err != nil || res.Artifact == nil || w.cfg.Reader == nil {
		return fmt.Errorf("%w: its arguments cannot be kept in an artifact", bus.ErrTooLarge)
	}
	p.ArgsIn = res.Artifact.ID
	p.Call.Args, err = shownArgs(a.call.Args)
	return err
}

// readArgs reads what storeArgs stored. Any client can name an artifact in the header, so the
// digest is that of the arguments which it has.
func (w *Worker) readArgs(ctx context.Context, a *attempt) error {
	if w.cfg.Reader == nil {
		return errors.New("the arguments of the call are in an artifact, and this worker reads none")
	}
	return w.withStoreRetry(ctx, func() error {
		_, content, err := w.cfg.Reader.Open(ctx, a.key.Session, a.resumed.ArgsIn)
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }()
		if a.call.Args, err = io.ReadAll(io.NewSectionReader(content, 0, content.Size())); err != nil {
			return err
		}
		a.digest = a.call.Digest()
		return nil
	})
}

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
	if a.raw != nil {
		return false, nil
	}
	var shown json.RawMessage
	needed := a.resumed.State == task.InputRequired // an answer also counts for a worker whose own rules need none
	if !needed && w.cfg.Approvals.Needed != nil {
		call, err := w.withArtifacts(ctx, a) // the rules and the schema are for what the tool gets
		if err != nil {
			return true, w.offloadAndPublish(ctx, a, tools.Failure(err))
		}
		needed = w.cfg.Approvals.Needed(call) && w.registry.Check(call) == nil
		if needed && !bytes.Equal(call.Args, a.call.Args) {
			if shown, err = shownArgs(call.Args); err != nil {
				return false, err
			}
		}
	}
	if !needed {
		return false, nil
	}
	var answer *task.Answer
	err = w.readWithRetry(ctx, func() error {
		if a.resumed.State == task.InputRequired { // it was answered, or the time has passed
			stored, err := task.WriteAnswer(ctx, w.bus, a.key, task.Answer{At: time.Now().UTC(), Digest: a.digest, Expired: true})
			answer = &stored
			return err
		}
		record, err := task.ReadRecord(ctx, w.bus, a.key)
		answer = record.Answer
		return err
	})
	if err != nil {
		return false, err
	}
	if answer == nil {
		return true, w.askAndPark(ctx, a, shown)
	}
	if err := a.checkDigest(answer.Digest); err != nil {
		return false, err
	}
	if a.approved = answer.Approve; a.approved {
		return false, nil
	}
	return true, w.offloadAndPublish(ctx, a, denied(a.call.Tool, *answer))
}

// askAndPark asks for an approval and parks the call until the deadline of the answer. The
// question has the arguments shown, or those of the call if shown is nil.
func (w *Worker) askAndPark(ctx context.Context, a *attempt, shown json.RawMessage) error {
	timeout := cmp.Or(max(w.cfg.Approvals.Timeout, 0), 24*time.Hour)
	p := task.Parked{State: task.InputRequired, Reason: "waiting for an approval", Until: time.Now().Add(timeout), Shown: shown}
	err := w.park(ctx, a, p)
	if errors.Is(err, bus.ErrTooLarge) {
		res := tools.Failure(tools.Errorf(tools.CodeDenied, "The call of %s did not run: it needs an approval, but it is too large to wait for one.", a.call.Tool))
		return w.offloadAndPublish(ctx, a, res)
	}
	return err
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
		w.log.Error().Err(err).Str("call", k.ID).Str("session", k.Session).Str("tool", p.Call.Tool).Msg("the user was not asked for an " +
			"approval; the call waits for one")
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
