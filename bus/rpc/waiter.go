package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
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
// dead letter of the call with the subject callSubject.
type waiter struct {
	bus         *bus.Bus
	call        tools.Call
	subject     string
	callSubject string
	stored      string // the subject on which the server repeats the message
	msgs        chan *nats.Msg
	stops       []func()
}

// newWaiter subscribes to the result or the completion of a call. The server receives the
// subscriptions before a call that is published later on the same connection. subjectOf is
// Bus.Result or Bus.Completion. Without a callSubject, the waiter ignores dead letters.
func newWaiter(b *bus.Bus, subjectOf func(session, call string) string, call tools.Call, callSubject string) (*waiter, error) {
	session := call.SessionToken()
	subject := subjectOf(session, call.IDToken())
	w := &waiter{bus: b, call: call, subject: subject, callSubject: callSubject, stored: b.Stored(subject), msgs: make(chan *nats.Msg, 16)}
	subjects := [][2]string{{b.Stored(subjectOf(session, "*")), w.stored}} // one subscription for all calls of the session
	if letters := b.Dead(bus.DeadCall, call.Tool); callSubject != "" {
		subjects = append(subjects, [2]string{letters, letters})
	}
	for _, watched := range subjects {
		stop, err := b.Watch(watched[0], watched[1], w.msgs)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("wait for %q: %w", watched[1], err)
		}
		w.stops = append(w.stops, stop)
	}
	return w, nil
}

func (w *waiter) close() {
	for _, stop := range w.stops {
		stop()
	}
}

// wait returns the stored message. The server repeats it to the waiter; if that is lost,
// wait reads the stream.
func (w *waiter) wait(ctx context.Context) (stored task.StoredResult, err error) {
	// The message may already be stored: read the stream soon, then at intervals.
	pause := pollInterval
	poll := time.NewTimer(pollInterval / 10)
	defer poll.Stop()
	var (
		letter   dead.Letter
		noResult <-chan time.Time
	)
	for {
		select {
		case <-ctx.Done():
			return stored, fmt.Errorf("%w: %w", ErrPending, ctx.Err())
		case <-w.bus.Closed():
			return stored, fmt.Errorf("%w: %w", ErrPending, w.bus.ClosedErr())
		case msg := <-w.msgs:
			if stored, ok := w.result(msg); ok {
				return stored, nil
			}
			if l, ok := w.deadLetter(msg); ok && !w.isOfAnother(ctx, l) {
				if l.Code == tools.CodeMismatch || l.Code == consume.CodeUndecodable {
					return stored, &DeadLetterError{l} // it gets no result
				}
				letter, noResult = l, time.After(deadLetterTimeout)
			}
			if msg.Subject == w.stored || noResult != nil {
				pause = messageInterval
				poll.Reset(0)
			}
		case <-noResult:
			return stored, &DeadLetterError{letter}
		case <-poll.C:
			stored, ok, err := task.ReadResult(ctx, w.bus, w.subject)
			if ok || errors.Is(err, jetstream.ErrStreamNotFound) {
				return stored, err
			}
			// Other errors may be temporary, such as those of a server restart.
			poll.Reset(pause)
			pause = min(2*pause, pollInterval)
		}
	}
}

// result returns the result that the server repeated when it stored it, without its sequence.
func (w *waiter) result(msg *nats.Msg) (task.StoredResult, bool) {
	if msg.Subject != w.stored || msg.Header.Get(jetstream.SubjectHeader) != w.subject {
		return task.StoredResult{}, false
	}
	event, err := task.DecodeResult(w.bus, w.subject, msg.Data)
	return task.StoredResult{ResultEvent: event, Body: msg.Data}, err == nil
}

func (w *waiter) deadLetter(msg *nats.Msg) (letter dead.Letter, ok bool) {
	if msg.Subject == w.stored {
		return letter, false
	}
	err := json.Unmarshal(msg.Data, &letter)
	return letter, err == nil && letter.Subject == w.callSubject
}

// isOfAnother reports whether a letter has another call with the id of the one that the waiter waits for. That one may be parked.
func (w *waiter) isOfAnother(ctx context.Context, l dead.Letter) bool {
	if l.Code != tools.CodeMismatch || l.ArgsIn != "" {
		return false
	}
	body, err := l.Message(ctx, w.bus)
	if err != nil {
		return false
	}
	call, err := tools.DecodeCall(body)
	call.Tool = w.call.Tool
	return err == nil && call.Digest() != w.call.Digest()
}

// WatchProgress calls show for each progress event of a call, one at a time. stop shows
// the events that have arrived, and ends the watch. A worker publishes the last event
// before the result, so a caller that has the result and calls stop misses none.
func WatchProgress(b *bus.Bus, call tools.Call, show func(tools.ProgressEvent)) (stop func(), err error) {
	events := make(chan *nats.Msg, 4096)
	sub, err := b.Conn().ChanSubscribe(b.Progress(call.SessionToken(), call.IDToken()), events)
	if err != nil {
		return nil, fmt.Errorf("watch the progress of call %q: %w", call.ID, err)
	}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case msg := <-events:
				var event tools.ProgressEvent
				if json.Unmarshal(msg.Data, &event) == nil { // otherwise it is not from a worker
					event.Activity = slices.DeleteFunc(event.Activity, func(a tools.Activity) bool { return a.Offset < 0 }) // nor is that
					show(event)
				}
			case <-ended:
				if len(events) == 0 {
					return
				}
			}
		}
	})
	return func() {
		close(ended)
		watching.Wait()
		_ = sub.Unsubscribe() // fails only if the connection is closed
	}, nil
}
