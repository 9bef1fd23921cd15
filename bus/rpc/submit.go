package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// DeadLetterError means that a call became a dead letter and gets no result: it
// cannot be decoded, or its id belongs to another call.
type DeadLetterError struct{ bus.DeadLetter }

func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("the call became a dead letter: %s (%s)", e.Reason, e.Code)
}

// Unwrap gives the error the letter's code. Submit or the worker may reject a call
// whose id was used before; both errors have the same code.
func (e *DeadLetterError) Unwrap() error { return tools.Errorf(e.Code, "%s", e.Reason) }

// ErrPending means that the call was accepted and the caller stopped waiting for
// its result. It wraps the reason.
var ErrPending = errors.New("no result yet; the call is still queued or running")

// Submit publishes a call to a queue (default: bus.DefaultQueue) and waits for its
// result until ctx ends. A call without an id gets one. Submitting the same call
// again waits for, or returns, the same result.
//
// A *DeadLetterError means that there will be no result. If ctx ends or the
// connection closes after the call was stored, the error is ErrPending; submit the
// call again to wait for its result. After any other error the call may not run.
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
		return tools.ResultEvent{}, tools.Errorf(tools.CodeInvalidCall, "invalid tool %q or queue %q: %v", call.Tool, queue, err)
	}
	body, err := bus.Encode(call)
	if err != nil {
		return tools.ResultEvent{}, tools.Errorf(tools.CodeInvalidArguments, "the arguments are not JSON: %v", err)
	}
	session, id := call.SessionToken(), call.IDToken()
	key := session + "." + id + "." + call.Digest()

	w, err := newWaiter(b, b.Result(session, id), b.Dead(bus.DeadCall, call.Tool), key)
	if err != nil {
		return tools.ResultEvent{}, err
	}
	defer w.close()
	queued := false
	if !fresh {
		// A call that was submitted before must not reach a worker again, and the
		// calls stream forgets keys. A call leaves that stream when its result is
		// stored, so look there first.
		queued, err = b.FindStaleCall(ctx, b.Call(queue, call.Tool), func(body []byte) bool {
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
			return resultOf(call, stored)
		} // other errors may be temporary; the waiter reads again
	}
	if !queued {
		subject := b.Call(queue, call.Tool)
		err = b.WatchDenial(ctx, subject, func(ctx context.Context) error {
			_, err := b.Publish(ctx, bus.Message{Subject: subject, Body: body, Key: key})
			return err
		})
	}
	if errors.Is(err, bus.ErrTooLarge) {
		return tools.ResultEvent{}, tools.Errorf(tools.CodeInvalidCall, "the call has %d bytes, but the server accepts at most %d; put large arguments into a file of the workspace", len(body), b.Conn().MaxPayload())
	}
	if err != nil {
		return tools.ResultEvent{}, fmt.Errorf("submit call %q: %w", id, err)
	}
	stored, err := w.wait(ctx)
	if err != nil {
		return tools.ResultEvent{}, err
	}
	return resultOf(call, stored)
}

// resultOf returns a stored result, unless it belongs to another call with the id.
func resultOf(call tools.Call, stored task.StoredResult) (tools.ResultEvent, error) {
	if err := task.CheckDigest(call, call.Digest(), stored.Digest); err != nil {
		return tools.ResultEvent{}, err
	}
	return stored.ResultEvent, nil
}

// AwaitCompletion waits for the completion of an async call, until ctx ends or the
// connection closes; then the error is ErrPending. It uses the id, the session and
// the tool of call; a result event has the same ones.
func AwaitCompletion(ctx context.Context, b *bus.Bus, call tools.Call) (tools.ResultEvent, error) {
	if err := call.Validate(); err != nil {
		return tools.ResultEvent{}, err
	}
	w, err := newWaiter(b, b.Completion(call.SessionToken(), call.IDToken()), b.Dead(bus.DeadCall, call.Tool), "")
	if err != nil {
		return tools.ResultEvent{}, err
	}
	defer w.close()
	stored, err := w.wait(ctx)
	return stored.ResultEvent, err
}
