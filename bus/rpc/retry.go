package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// RetryCall publishes the message of a dead letter again and removes the letter.
// First it removes the result that the worker published for the dead letter:
// otherwise the call would end with that result. It returns an error if the call has
// any other result.
func RetryCall(ctx context.Context, b *bus.Bus, letter bus.StoredDeadLetter) error {
	if letter.Kind == bus.DeadCall && letter.Code != tools.CodeMismatch {
		if err := removeResult(ctx, b, letter); err != nil {
			return fmt.Errorf("retry dead letter %d: %w", letter.Number, err)
		}
	}
	return b.RetryDeadLetter(ctx, letter)
}

// removeResult removes the result of a dead letter's call. A crash after it keeps
// the letter, which can be retried.
func removeResult(ctx context.Context, b *bus.Bus, letter bus.StoredDeadLetter) error {
	body, err := b.DeadMessage(ctx, letter.DeadLetter)
	if err != nil {
		return err
	}
	call, err := tools.DecodeCall(body) // works for raw results too
	if err != nil {
		return nil // it has no result
	}
	call.ID = cmp.Or(call.ID, letter.ID)
	call.Session = cmp.Or(call.Session, tools.DefaultSession)
	session, id := call.SessionToken(), call.IDToken()
	stored, err := task.ReadResults(ctx, b, session, id)
	if err != nil || !task.Ended(stored) {
		return err
	}
	last := stored[len(stored)-1]
	switch {
	case last.Outcome == tools.Unknown:
		return errors.New("the call may have run, and its once-only tool must not run twice; check its effects and submit the call with another id")
	case last.Error == nil || last.Error.Code != tools.CodeGivenUp:
		return fmt.Errorf("the call has another result (%s); remove the dead letter", last.Outcome)
	}
	stream, err := b.JetStream().Stream(ctx, b.StreamName(bus.Results))
	if err != nil {
		return err
	}
	if err := stream.DeleteMsg(ctx, last.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("remove the result of call %q in session %q: %w", id, session, err)
	}
	return nil
}
