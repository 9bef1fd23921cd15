package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
)

// CollectReplies sends a request that any number of workers may answer, and calls
// reply for each answer. The number of answers is unknown: it returns when no answer
// arrives within timeout, which each reply sets for the next one.
func CollectReplies(ctx context.Context, b *bus.Bus, subject string, body []byte, timeout time.Duration, reply func(body []byte) (timeout time.Duration)) error {
	inbox := b.Conn().NewInbox()
	sub, err := b.Conn().SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("request %q: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	if err := b.Conn().PublishRequest(subject, inbox, body); err != nil {
		return fmt.Errorf("request %q: %w", subject, err)
	}
	for {
		waitCtx, cancel := context.WithTimeout(ctx, timeout)
		msg, err := sub.NextMsgWithContext(waitCtx)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case noAnswer(err):
			return nil
		case err != nil:
			return fmt.Errorf("request %q: %w", subject, err)
		}
		timeout = reply(msg.Data)
	}
}

// RequestAny sends a request that any number of workers may answer, and returns
// the first answer; ok is false if there is none within timeout.
func RequestAny(ctx context.Context, b *bus.Bus, subject string, body []byte, timeout time.Duration) (answer []byte, ok bool, err error) {
	waitCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	msg, err := b.Conn().RequestWithContext(waitCtx, subject, body)
	switch {
	case err == nil:
		return msg.Data, true, nil
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case noAnswer(err):
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("request %q: %w", subject, err)
}

func noAnswer(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}
