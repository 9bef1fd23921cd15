package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// pollInterval is the longest pause between two reads of the stream. A waiter
	// polls because it misses messages while the connection is lost.
	pollInterval = 2 * time.Second
	// messageInterval is the first pause after a message arrived that the stream
	// does not hold yet.
	messageInterval = 5 * time.Millisecond
	// deadLetterTimeout is how long the worker may take to publish the result of a
	// call that became a dead letter.
	deadLetterTimeout = 15 * time.Second
)

// waiter waits for the one message on a subject of the results stream, or for the
// dead letter with the id deadID.
type waiter struct {
	bus     *bus.Bus
	subject string
	deadID  string
	results *nats.Subscription
	dead    *nats.Subscription
	msgs    chan *nats.Msg
}

// newWaiter subscribes. The server receives the subscriptions before a call that
// is published later on the same connection.
func newWaiter(b *bus.Bus, subject, deadSubject, deadID string) (*waiter, error) {
	w := &waiter{bus: b, subject: subject, deadID: deadID, msgs: make(chan *nats.Msg, 64)}
	var err error
	if w.results, err = b.Conn().ChanSubscribe(subject, w.msgs); err != nil {
		return nil, fmt.Errorf("wait for %q: %w", subject, err)
	}
	if w.dead, err = b.Conn().ChanSubscribe(deadSubject, w.msgs); err != nil {
		w.close()
		return nil, fmt.Errorf("wait for %q: %w", deadSubject, err)
	}
	return w, nil
}

func (w *waiter) close() {
	for _, sub := range []*nats.Subscription{w.results, w.dead} {
		if sub != nil {
			_ = sub.Unsubscribe() // fails only if the connection is closed
		}
	}
}

// wait returns the stored message. A message that arrives on the subject may be a
// duplicate that the stream rejected, so wait then reads the stream.
func (w *waiter) wait(ctx context.Context) (stored task.StoredResult, err error) {
	// The message may already be stored: read the stream soon, then at intervals.
	pause := pollInterval
	poll := time.NewTimer(pollInterval / 10)
	defer poll.Stop()
	var (
		letter   bus.DeadLetter
		noResult <-chan time.Time
	)
	for {
		select {
		case <-ctx.Done():
			return stored, fmt.Errorf("%w: %w", ErrPending, ctx.Err())
		case <-w.bus.Closed():
			return stored, fmt.Errorf("%w: %w", ErrPending, w.bus.ClosedErr())
		case msg := <-w.msgs:
			if l, ok := w.deadLetter(msg); ok {
				if l.Code == tools.CodeMismatch || l.Code == bus.CodeUndecodable {
					return stored, &DeadLetterError{l} // it gets no result
				}
				letter, noResult = l, time.After(deadLetterTimeout)
			}
			if msg.Subject == w.subject || noResult != nil {
				pause = messageInterval
				poll.Reset(0)
			}
		case <-noResult:
			return stored, &DeadLetterError{letter}
		case <-poll.C:
			stored, ok, err := task.ReadResult(ctx, w.bus, w.subject)
			if ok || errors.Is(err, task.ErrUnreadable) || errors.Is(err, jetstream.ErrStreamNotFound) {
				return stored, err
			}
			// Other errors may be temporary, such as those of a server restart.
			poll.Reset(pause)
			pause = min(2*pause, pollInterval)
		}
	}
}

func (w *waiter) deadLetter(msg *nats.Msg) (letter bus.DeadLetter, ok bool) {
	if msg.Subject == w.subject || w.deadID == "" {
		return letter, false
	}
	err := json.Unmarshal(msg.Data, &letter)
	return letter, err == nil && letter.ID == w.deadID
}
