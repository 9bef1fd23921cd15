package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// DeadError says that a call became a dead letter and has no result: it was not
// a call that a worker could read, or its id is another call's.
type DeadError struct{ bus.DeadLetter }

func (e *DeadError) Error() string {
	return fmt.Sprintf("the call was given up: %s (%s)", e.Reason, e.Code)
}

// Unwrap gives the error the letter's code. A call whose id was used before is
// refused here or by the worker, whichever is first, and must look the same.
func (e *DeadError) Unwrap() error { return tools.Errorf(e.Code, "%s", e.Reason) }

const (
	// pollInterval is how often the stream is asked for an answer, in case its
	// message passed by unseen, as it does while a connection is lost.
	pollInterval = 2 * time.Second
	// heardInterval is the pause after an answer was heard that the stream does
	// not have yet.
	heardInterval = 5 * time.Millisecond
	// deadPatience is how long a call that became a dead letter may take to get
	// the result that says so.
	deadPatience = 15 * time.Second
)

// ErrPending: the call was accepted and goes on, and its answer was not waited
// for any longer. What ended the wait is wrapped beside it.
var ErrPending = errors.New("there is no answer yet, and the call goes on")

// Submit publishes a call to a queue and waits for its result, until ctx ends.
// A call without an id gets one, an empty queue is the default one. Submitting
// the same call again waits for, or returns, the same result.
//
// A *DeadError means that there will be none. When ctx ends once the call is
// stored, or the connection is given up, the error is ErrPending: the call goes on,
// and its result can be waited for by submitting it again. After any other error
// nobody promised to run it.
func Submit(ctx context.Context, b *bus.Bus, queue string, call tools.Call) (tools.ResultEvent, error) {
	fresh := call.ID == ""
	if fresh {
		call.ID = nuid.Next()
	}
	if call.Session == "" {
		call.Session = tools.DefaultSession
	}
	if err := call.Validate(); err != nil {
		return tools.ResultEvent{}, err
	}
	queue = cmp.Or(queue, bus.DefaultQueue)
	if err := bus.CheckSubject(b.Call(queue, call.Tool)); err != nil {
		return tools.ResultEvent{}, tools.Errorf(tools.CodeInvalidCall, "there can be no tool %q in a queue %q: %v", call.Tool, queue, err)
	}
	body, err := bus.Encode(call)
	if err != nil {
		return tools.ResultEvent{}, tools.Errorf(tools.CodeInvalidArguments, "the arguments are not JSON: %v", err)
	}
	session, id := call.SessionToken(), call.IDToken()
	key := session + "." + id + "." + call.Digest()

	w, err := newWait(b, b.Result(session, id), b.Dead(bus.DeadCall, call.Tool), key)
	if err != nil {
		return tools.ResultEvent{}, err
	}
	defer w.close()
	waits := false
	if !fresh {
		// Submitted before, it must not reach a worker again: after a while the
		// stream of calls would not know that it had it. A call leaves that
		// stream when its result stands, so it is the first to be asked.
		waits, err = b.OldCall(ctx, b.Call(queue, call.Tool), func(body []byte) bool {
			old, err := tools.DecodeCall(body)
			return err == nil && old.IDToken() == id && old.SessionToken() == session
		})
		if err != nil {
			return tools.ResultEvent{}, fmt.Errorf("submit call %q: it was not published: %w", id, err)
		}
		stored, ok, err := task.ReadResult(ctx, b, b.Result(session, id))
		if errors.Is(err, task.ErrUnreadable) {
			return tools.ResultEvent{}, err
		}
		if ok {
			return answerTo(call, stored)
		} // an error may pass; waiting will show
	}
	if !waits {
		subject := b.Call(queue, call.Tool)
		err = b.Allowed(ctx, subject, func(ctx context.Context) error {
			_, err := b.Publish(ctx, bus.Message{Subject: subject, Body: body, Key: key})
			return err
		})
	}
	if errors.Is(err, bus.ErrTooLarge) {
		return tools.ResultEvent{}, tools.Errorf(tools.CodeInvalidCall, "the call has %d bytes, and the server takes messages of %d; put big arguments into a file of the workspace", len(body), b.Conn().MaxPayload())
	}
	if err != nil {
		return tools.ResultEvent{}, fmt.Errorf("submit call %q: %w", id, err)
	}
	stored, err := w.next(ctx)
	if err != nil {
		return tools.ResultEvent{}, err
	}
	return answerTo(call, stored)
}

// answerTo returns a stored result of a call, unless it is the result of another
// call with the same id.
func answerTo(call tools.Call, stored task.StoredResult) (tools.ResultEvent, error) {
	if stored.Digest != "" && stored.Digest != call.Digest() {
		return tools.ResultEvent{}, tools.Errorf(tools.CodeMismatch, "the id %q was used before, with another tool or other arguments; choose a new id", tools.Excerpt(call.ID, 80))
	}
	return stored.ResultEvent, nil
}

// AwaitCompletion waits for the completion of an async call, until ctx ends or the
// connection is given up; then the error is ErrPending. Of the call it takes the
// id, the session and the tool; those of the result are the same.
func AwaitCompletion(ctx context.Context, b *bus.Bus, call tools.Call) (tools.ResultEvent, error) {
	if err := call.Validate(); err != nil {
		return tools.ResultEvent{}, err
	}
	w, err := newWait(b, b.Completion(call.SessionToken(), call.IDToken()), b.Dead(bus.DeadCall, call.Tool), "")
	if err != nil {
		return tools.ResultEvent{}, err
	}
	defer w.close()
	stored, err := w.next(ctx)
	return stored.ResultEvent, err
}

// wait waits for the one message on a subject of the results stream, or for the
// dead letter with a given id.
type wait struct {
	bus     *bus.Bus
	subject string
	deadID  string
	results *nats.Subscription
	dead    *nats.Subscription
	msgs    chan *nats.Msg
}

func newWait(b *bus.Bus, subject, deadSubject, deadID string) (*wait, error) {
	w := &wait{bus: b, subject: subject, deadID: deadID, msgs: make(chan *nats.Msg, 64)}
	var err error
	if w.results, err = b.Conn().ChanSubscribe(subject, w.msgs); err != nil {
		return nil, fmt.Errorf("wait for %q: %w", subject, err)
	}
	if w.dead, err = b.Conn().ChanSubscribe(deadSubject, w.msgs); err != nil {
		w.close()
		return nil, fmt.Errorf("wait for %q: %w", deadSubject, err)
	}
	// The subscriptions reach the server before the call does, because both go
	// down one connection in order.
	return w, nil
}

func (w *wait) close() {
	for _, sub := range []*nats.Subscription{w.results, w.dead} {
		if sub != nil {
			_ = sub.Unsubscribe() // gone with the connection otherwise
		}
	}
}

// next returns what stands in the stream, and only that. What is heard on the
// subject may be a later answer, which the stream refused but which every
// subscriber got; so hearing something is but a reason to look.
func (w *wait) next(ctx context.Context) (stored task.StoredResult, err error) {
	// The answer may have stood there before; soon after the start, and then
	// now and again, the stream is asked.
	pause := pollInterval
	poll := time.NewTimer(pollInterval / 10)
	defer poll.Stop()
	var (
		letter bus.DeadLetter
		died   <-chan time.Time
	)
	for {
		select {
		case <-ctx.Done():
			return stored, fmt.Errorf("%w: %w", ErrPending, ctx.Err())
		case <-w.bus.Closed():
			return stored, fmt.Errorf("%w: %w", ErrPending, w.bus.ClosedErr())
		case msg := <-w.msgs:
			if l, ok := w.isDead(msg); ok {
				if l.Code == tools.CodeMismatch || l.Code == bus.CodeUndecodable {
					return stored, &DeadError{l} // it gets no result
				}
				letter, died = l, time.After(deadPatience)
			}
			if msg.Subject == w.subject || died != nil {
				pause = heardInterval
				poll.Reset(0)
			}
		case <-died:
			return stored, &DeadError{letter}
		case <-poll.C:
			stored, ok, err := task.ReadResult(ctx, w.bus, w.subject)
			if ok || errors.Is(err, task.ErrUnreadable) || errors.Is(err, jetstream.ErrStreamNotFound) {
				return stored, err
			}
			// Any other error may pass, as while the server is restarted.
			poll.Reset(pause)
			pause = min(2*pause, pollInterval)
		}
	}
}

func (w *wait) isDead(msg *nats.Msg) (bus.DeadLetter, bool) {
	var letter bus.DeadLetter
	if msg.Subject == w.subject || w.deadID == "" {
		return letter, false
	}
	err := json.Unmarshal(msg.Data, &letter)
	return letter, err == nil && letter.ID == w.deadID
}
