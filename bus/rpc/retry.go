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
// The answer that a call got when it was given up on is taken back before, or
// the call would find itself answered. One that has any other answer is not
// retried, which is an error.
func RetryCall(ctx context.Context, b *bus.Bus, letter bus.Buried) error {
	if letter.Kind == bus.DeadCall && letter.Code != tools.CodeMismatch {
		if err := takeBack(ctx, b, letter); err != nil {
			return fmt.Errorf("retry dead letter %d: %w", letter.Number, err)
		}
	}
	return b.Resurrect(ctx, letter)
}

// takeBack removes the answer of a call that was given up on. A crash after it
// leaves the letter, which can be retried.
func takeBack(ctx context.Context, b *bus.Bus, letter bus.Buried) error {
	body, err := b.DeadMessage(ctx, letter.DeadLetter)
	if err != nil {
		return err
	}
	call, err := tools.DecodeCall(body) // raw results are calls, and more
	if err != nil {
		return nil // nobody could answer it
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
		return errors.New("the call may have run, and its tool must not run twice; check what it did, and submit it under another id")
	case last.Error == nil || last.Error.Code != tools.CodeGivenUp:
		return fmt.Errorf("the call was answered since (%s); remove the letter", last.Outcome)
	}
	stream, err := b.JetStream().Stream(ctx, b.StreamName(bus.Results))
	if err != nil {
		return err
	}
	if err := stream.DeleteMsg(ctx, last.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("take back the answer to call %s of session %s: %w", id, session, err)
	}
	return nil
}
