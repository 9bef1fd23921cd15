package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Retry publishes the message of a dead letter again and removes the letter.
// The answer that a call got when it was given up on is taken back before, or
// the call would find itself answered. One that has any other answer is not
// retried, which is an error.
func Retry(ctx context.Context, b *bus.Bus, letter bus.Buried) error {
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
	for _, subject := range []string{b.Result(session, id), b.Completion(session, id)} {
		stands, sequence, err := b.LastRevision(ctx, bus.Results, subject)
		if err != nil {
			return err
		}
		if sequence == 0 {
			return nil
		}
		event, err := tools.DecodeResult(stands)
		switch {
		case err != nil:
			return err
		case event.Outcome == tools.Async:
			continue // its completion is what counts
		case event.Outcome == tools.Unknown:
			return errors.New("the call may have run, and its tool must not run twice; check what it did, and submit it under another id")
		case event.Error == nil || event.Error.Code != tools.CodeGivenUp:
			return fmt.Errorf("the call was answered since (%s); remove the letter", event.Outcome)
		}
		stream, err := b.JetStream().Stream(ctx, b.StreamName(bus.Results))
		if err != nil {
			return err
		}
		if err := stream.DeleteMsg(ctx, sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("take back the answer on %q: %w", subject, err)
		}
		return nil
	}
	return nil
}
