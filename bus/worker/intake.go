package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// busyRetry is the pause before a call that cannot be filed now is delivered again.
const busyRetry = 5 * time.Second

// fileCall stores a call of the intake under its long form, and so takes it out of the
// intake. The worker does this if no slot is free to run the call: from then on, a read
// of its subject finds the call, and the server rejects it if it is submitted again.
func (w *Worker) fileCall(ctx context.Context, d *bus.Delivery) error {
	w.cfg.OnStep(StepFile)
	a, err := w.decode(d)
	if err != nil {
		return bus.Reject(bus.CodeUndecodable, err)
	}
	subject := w.bus.Call(a.queue, a.call.Tool, a.key.session, a.key.id)
	if a.raw != nil {
		subject = w.bus.Raw(a.queue, a.call.Tool, a.key.session, a.key.id)
	}
	if bus.CheckSubject(subject) != nil || a.invalid != nil {
		return w.handle(ctx, d) // it gets an error result, without running
	}
	m := d.Refile(subject)
	m.Timeout = bus.NoTimeout
	_, err = w.bus.Publish(ctx, m)
	switch {
	case err == nil:
		w.cfg.OnStep(StepFiled)
		return nil
	case errors.Is(err, bus.ErrSubjectExists):
		return w.checkFiled(ctx, a, subject)
	case errors.Is(err, bus.ErrFull), errors.Is(err, bus.ErrTooLarge): // it waits in the intake
		return bus.RetryAfter(busyRetry, nil)
	}
	return err
}

// checkFiled rejects a call whose subject holds another call with its id. If it holds the
// same call, there is nothing left to do.
func (w *Worker) checkFiled(ctx context.Context, a *attempt, subject string) error {
	body, ok, err := w.bus.LastMessage(ctx, bus.Calls, subject)
	if err != nil {
		return err
	}
	if !ok { // it was settled and removed just now
		return bus.RetryAfter(time.Millisecond, nil)
	}
	if call, err := tools.DecodeCall(body); err == nil && a.raw == nil {
		call.Tool = a.call.Tool
		if err := task.CheckDigest(a.call, a.digest, call.Digest()); err != nil {
			return bus.Reject(tools.CodeMismatch, err)
		}
	}
	return nil
}
