package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// DeadLetterError means that a call became a dead letter and gets no result: it
// cannot be decoded, or its id belongs to another call.
type DeadLetterError struct{ dead.Letter }

func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("the call became a dead letter: %s (%s)", e.Reason, e.Code)
}

// Unwrap gives the error the letter's code. Submit or the worker may reject a call
// whose id was used before; both errors have the same code.
func (e *DeadLetterError) Unwrap() error { return tools.Errorf(e.Code, "%s", e.Reason) }

// ErrPending means that the call was accepted and the caller stopped waiting for
// its result. It wraps the reason.
var ErrPending = errors.New("no result yet; the call is still queued or running")

// Acceptance says that a call is stored.
type Acceptance struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Tool    string `json:"tool"`
	Queue   string `json:"queue"`
	// Sequence is that of the call in the calls stream.
	Sequence uint64 `json:"sequence,omitempty"`
	// Duplicate is set if the same call was submitted before. It is queued, running or parked, or
	// has ended with Outcome.
	Duplicate bool          `json:"duplicate,omitempty"`
	Outcome   tools.Outcome `json:"outcome,omitempty"`
}

// Enqueue stores a call in a queue (default: bus.DefaultQueue) and does not wait for its
// result. A call without an id gets one. If the same call was submitted before, it is not
// stored again. After any error but bus.ErrUnreachable the call is not stored by Enqueue.
func Enqueue(ctx context.Context, b *bus.Bus, queue string, call tools.Call) (Acceptance, error) {
	s, err := newSubmission(b, queue, call)
	if err != nil {
		return Acceptance{}, err
	}
	if !s.fresh { // the stream does not have a call that is parked
		var p task.Parked
		var parked bool
		read := b.API().Subject("STREAM.MSG.GET." + b.BucketStream(bus.TasksBucket))
		err := b.WatchDenial(ctx, read, func(ctx context.Context) (err error) {
			p, parked, err = task.ReadParked(ctx, b, tools.CallKey{Session: s.call.SessionToken(), ID: s.call.IDToken()})
			return err
		})
		if err == nil && parked { // after an error, the worker finds out
			return Acceptance{ID: s.call.ID, Session: s.call.Session, Tool: s.call.Tool, Queue: p.Queue, Duplicate: true}, task.CheckDigest(s.call, s.digest, p.Digest)
		}
	}
	accepted, _, err := s.publish(ctx, b)
	return accepted, err
}

// Submit stores a call in a queue (default: bus.DefaultQueue) and waits for its
// result until ctx ends. A call without an id gets one. Submitting the same call
// again waits for, or returns, the same result.
//
// A *DeadLetterError means that there will be no result. If ctx ends or the
// connection closes after the call was stored, the error is ErrPending; submit the
// call again to wait for its result. After any other error the call may not run.
func Submit(ctx context.Context, b *bus.Bus, queue string, call tools.Call) (tools.ResultEvent, error) {
	stored, err := submit(ctx, b, queue, call)
	return stored.ResultEvent, err
}

func submit(ctx context.Context, b *bus.Bus, queue string, call tools.Call) (none task.StoredResult, err error) {
	s, err := newSubmission(b, queue, call)
	if err != nil {
		return none, err
	}
	w, err := newWaiter(b, b.Result, s.call, s.subject)
	if err != nil {
		return none, err
	}
	defer w.close()
	_, earlier, err := s.publish(ctx, b)
	switch {
	case err != nil:
		return none, err
	case earlier != nil:
		return *earlier, nil
	}
	stored, err := w.wait(ctx)
	if err == nil {
		err = task.CheckDigest(s.call, s.digest, stored.Digest)
	}
	if err != nil {
		return none, err
	}
	return stored, nil
}

// SubmitRaw stores a raw result in a queue and waits for the result that a worker makes of it.
// The errors are those of Submit.
func SubmitRaw(ctx context.Context, b *bus.Bus, queue string, raw tools.RawEvent) (tools.ResultEvent, error) {
	subject := b.Raw(b.QueueFor(queue), raw.Tool, raw.SessionToken(), raw.IDToken())
	body, err := bus.Encode(raw)
	if err != nil {
		return tools.ResultEvent{}, err
	}
	w, err := newWaiter(b, b.Result, raw.Call, subject)
	if err != nil {
		return tools.ResultEvent{}, err
	}
	defer w.close()
	err = b.WatchDenial(ctx, subject, func(ctx context.Context) error {
		_, err := b.Publish(ctx, bus.Message{Subject: subject, Body: body})
		return err
	})
	if err != nil && !errors.Is(err, bus.ErrSubjectExists) {
		return tools.ResultEvent{}, fmt.Errorf("submit raw result %q: %w", raw.IDToken(), err)
	}
	stored, err := w.wait(ctx)
	return stored.ResultEvent, err
}

// submission is a call that was checked.
type submission struct {
	call    tools.Call
	fresh   bool // its id was made here
	queue   string
	subject string
	body    []byte
	digest  string
}

func newSubmission(b *bus.Bus, queue string, call tools.Call) (submission, error) {
	s := submission{call: call, fresh: call.ID == "", queue: b.QueueFor(queue)}
	if s.fresh {
		s.call.ID = nuid.Next()
	}
	s.call.Session = cmp.Or(call.Session, tools.DefaultSession)
	if err := s.call.Validate(); err != nil {
		return submission{}, err
	}
	s.subject = b.Call(s.queue, call.Tool, s.call.SessionToken(), s.call.IDToken())
	if err := bus.CheckSubject(s.subject); err != nil {
		return submission{}, tools.Errorf(tools.CodeInvalidCall, "invalid tool %q or queue %q: %v", call.Tool, queue, err)
	}
	var err error
	if s.body, err = bus.Encode(s.call); err != nil {
		return submission{}, tools.Errorf(tools.CodeInvalidArguments, "the arguments are not JSON: %v", err)
	}
	if !s.fresh { // no other call has an id that was made here
		s.digest = s.call.Digest()
	}
	return s, nil
}

// publish stores the call, unless it is stored or has a result, which is then earlier.
//
// The calls stream does not keep calls that have ended, so publish reads the result first. Only
// for an id that was made here, the worker need not read it too: this process may stop for a
// while between its read and the publish.
func (s submission) publish(ctx context.Context, b *bus.Bus) (accepted Acceptance, earlier *task.StoredResult, err error) {
	accepted = Acceptance{ID: s.call.ID, Session: s.call.Session, Tool: s.call.Tool, Queue: s.queue}
	m := bus.Message{Subject: s.subject, Body: s.body, Header: nats.Header{}}
	if s.call.Priority != "" {
		m.Header[bus.PriorityHeader] = []string{s.call.Priority}
	}
	if s.fresh {
		m.Header[bus.FreshHeader] = []string{"1"}
	} else {
		result, ok, err := task.ReadResult(ctx, b, b.Result(s.call.SessionToken(), s.call.IDToken()))
		if err == nil && ok { // after an error, the worker reads it
			accepted.Duplicate, accepted.Outcome = true, result.Outcome
			return accepted, &result, task.CheckDigest(s.call, s.digest, result.Digest)
		}
	}
	if !tracing.Off() {
		var span trace.Span
		ctx, span = tracing.Start(ctx, "publish "+s.queue, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
			tracing.System.String("nats"), tracing.MessagingType.String("send"), tracing.Destination.String(s.queue),
			tracing.ToolName.String(s.call.Tool), tracing.ToolCall.String(s.call.IDToken()), tracing.Conversation.String(s.call.Session)))
		defer span.End()
	}
	tracing.Add(ctx, m.Header)
	err = b.WatchDenial(ctx, s.subject, func(ctx context.Context) error {
		ack, err := b.Publish(ctx, m)
		accepted.Sequence = ack.Sequence
		return err
	})
	switch {
	case errors.Is(err, bus.ErrSubjectExists):
		accepted.Duplicate = true
		accepted.Sequence, err = s.checkStored(ctx, b)
		return accepted, nil, err
	case errors.Is(err, nats.ErrMaxPayload): // not that of the stream, which has none unless somebody set one
		return Acceptance{}, nil, tools.Errorf(tools.CodeInvalidCall, "the call has %d bytes, but the server accepts at most %d; put "+
			"large arguments into a file of the workspace", len(s.body), b.Conn().MaxPayload())
	case err != nil:
		return Acceptance{}, nil, fmt.Errorf("submit call %q: %w", s.call.IDToken(), err)
	}
	return accepted, nil, nil
}

// checkStored returns the sequence of the stored message of the call, which is 0 if it was
// settled and removed just now. It returns an error if that is another call.
func (s submission) checkStored(ctx context.Context, b *bus.Bus) (uint64, error) {
	m, err := b.Last(ctx, bus.Calls, s.subject)
	if m.Sequence == 0 || err != nil {
		return 0, err
	}
	stored, err := tools.DecodeCall(m.Body)
	if err != nil {
		return m.Sequence, nil // the worker rejects it
	}
	stored.Tool = s.call.Tool
	return m.Sequence, task.CheckDigest(s.call, s.digest, stored.Digest())
}

// AwaitCompletion waits for the completion of an async call, until ctx ends or the
// connection closes; then the error is ErrPending. It uses the id, the session and
// the tool of call; a result event has the same ones.
func AwaitCompletion(ctx context.Context, b *bus.Bus, call tools.Call) (tools.ResultEvent, error) {
	if err := call.Validate(); err != nil {
		return tools.ResultEvent{}, err
	}
	w, err := newWaiter(b, b.Completion, call, "")
	if err != nil {
		return tools.ResultEvent{}, err
	}
	defer w.close()
	stored, err := w.wait(ctx)
	return stored.ResultEvent, err
}
