package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// CancelTask cancels a call that is queued or running, also in the background, and
// returns its new state. It returns an error if the call has ended.
func CancelTask(ctx context.Context, b *bus.Bus, session, id, by string) (Task, error) {
	t, err := GetTask(ctx, b, session, id)
	if err != nil {
		return Task{}, err
	}
	if !t.EndedAt.IsZero() {
		return t, tools.Errorf(tools.CodeInvalidArguments, "task %q has already ended: %s", id, t.State)
	}
	if err := task.Cancel(ctx, b, session, id); err != nil {
		return Task{}, err
	}
	// The first result wins, so this one is final even if the tool still runs.
	cause := tools.Errorf(tools.CodeCancelled, "the call was cancelled by %s", by)
	call := t.call
	if call.ID == "" {
		call = tools.Call{ID: id, Session: session, Tool: t.Tool}
	}
	event := tools.NewResultEvent(call, tools.Failure(cause))
	event.StartedAt, event.Worker = time.Now().UTC(), by
	if !t.StartedAt.IsZero() {
		event.StartedAt, event.DurationMS = t.StartedAt, time.Since(t.StartedAt).Milliseconds()
	}
	body, err := bus.Encode(event)
	if err != nil {
		return Task{}, err
	}
	subject := b.Result(session, id)
	if t.Async {
		subject = b.Completion(session, id)
	}
	if _, err := b.Publish(ctx, bus.Message{Subject: subject, Body: body}); err != nil && !errors.Is(err, bus.ErrSubjectExists) {
		return Task{}, err
	}
	return GetTask(ctx, b, session, id)
}
