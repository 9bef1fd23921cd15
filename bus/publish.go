package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

var (
	// ErrSubjectExists means that the subject already holds a message, which is stored and
	// can be read. A stream that allows one message per subject keeps the first one.
	ErrSubjectExists = errors.New("the subject already holds a message")
	// ErrFull means that the stream is full. It stored nothing.
	ErrFull = errors.New("the stream is full")
	// ErrConflict means that another client changed the subject: its last message is
	// not the expected one.
	ErrConflict = errors.New("another client changed the subject")
	// ErrTooLarge means that the message exceeds the limit of the server
	// (max_payload) or of the stream.
	ErrTooLarge = errors.New("the message is too large")
)

const (
	// defaultTimeout is the default of Message.Timeout.
	defaultTimeout = 30 * time.Second
	// NoTimeout as a Message.Timeout makes Publish retry until its context ends.
	NoTimeout time.Duration = -1
)

// Message is a message to publish.
type Message struct {
	Subject string
	Body    []byte
	// Header is sent unchanged. Do not copy headers of incoming messages into it.
	Header nats.Header
	// Key (Nats-Msg-Id) makes the stream drop repeated publishes. It may be empty if
	// the stream keeps one message per subject. If the stream holds another message with
	// the key, Publish stores this one under another key.
	Key string
	// Same reports whether a stored body is that of this message, for bodies that differ
	// each time. Nil compares the bytes.
	Same func(stored []byte) bool
	// Timeout limits the retries of Publish. Default 30 s.
	Timeout time.Duration
	// WaitIfFull makes Publish retry while the stream is full, instead of returning
	// ErrFull.
	WaitIfFull bool
}

// Ack is the acknowledgement of a stored message. Duplicate is set if the stream stored a message
// with the same key before.
type Ack = jsapi.PubAck

// Publish stores a message durably. It is the only place that repeats a message: without an
// acknowledgement the message may or may not be stored, so Publish repeats it with
// the same key until the message's timeout. Then it returns ErrUnreachable. It does
// not retry after ErrSubjectExists, ErrFull (unless WaitIfFull is set), ErrConflict,
// ErrTooLarge and nats.ErrConnectionClosed.
func (b *Bus) Publish(ctx context.Context, m Message) (Ack, error) {
	if err := CheckSubject(m.Subject); err != nil {
		return Ack{}, fmt.Errorf("publish: %w", err)
	}
	if m.Key != "" {
		m.Header = withKey(m.Header, m.Key)
	}
	p := publication{b, m}
	ack, err := p.store(ctx)
	if err == nil && ack.Duplicate && m.Key != "" {
		ack, err = p.storeUnderOtherKey(ctx, ack)
	}
	if errors.Is(err, ErrFull) {
		err = b.space.explain(ctx, m.Subject, err)
	}
	if err != nil {
		return ack, fmt.Errorf("publish to %q: %w", m.Subject, err)
	}
	return ack, nil
}

func (m Message) timeout() time.Duration { return cmp.Or(m.Timeout, defaultTimeout) }

// Send queues a message that no stream stores, such as an acknowledgement. Those that are ready
// together leave in one write.
func (b *Bus) Send(subject string, body []byte) error { return b.out.Put(subject, body) }

// publication is one Publish in progress.
type publication struct {
	b *Bus
	Message
}

// store publishes the message with its header, which may have a key.
func (p publication) store(ctx context.Context) (Ack, error) {
	ack, err := p.once(ctx)
	if err != nil && !isFinal(err) {
		ack, err = p.again(ctx)
	}
	if errors.Is(err, ErrFull) && p.WaitIfFull {
		return p.untilSpace(ctx)
	}
	return ack, err
}

// again publishes until the server answers.
func (p publication) again(ctx context.Context) (ack Ack, err error) {
	if p.Header.Get(FreshHeader) != "" { // the first message may be stored, and the call may have ended
		p.Header = maps.Clone(p.Header)
		p.Header.Del(FreshHeader)
	}
	err = publishAgain(ctx, p.b, p.timeout(), isFinal, func() (err error) {
		ack, err = p.once(ctx)
		return err
	})
	return ack, err
}

// publishAgain calls f until it succeeds, its error is final, or the timeout (NoTimeout:
// none) has passed. If the server did not answer, for example because a cluster has
// no leader, the error is then ErrUnreachable.
func publishAgain(ctx context.Context, b *Bus, timeout time.Duration, isFinal func(error) bool, f func() error) error {
	policy := retry.Pauses(50*time.Millisecond, 2*time.Second, timeout)
	if timeout == NoTimeout {
		policy.MaxInterval, policy.MaxElapsedTime = 10*time.Second, 0
	}
	var last error
	err := retry.Do(ctx, policy, isFinal, func(err error, pause time.Duration) {
		if timeout == NoTimeout && pause >= time.Second {
			retry.Warn(b.log, "cannot publish")(err, pause)
		}
	}, func() error {
		err := f()
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err
	})
	switch {
	case err == nil, isFinal(err), isRejected(err):
		return err
	case ctx.Err() != nil && last != nil:
		return fmt.Errorf("%w; before that: %w", err, last)
	case ctx.Err() != nil:
		return err
	}
	return fmt.Errorf("%w: JetStream at %s did not work for %s: %w", ErrUnreachable, b.cfg.address(), timeout, err)
}

func (p publication) once(ctx context.Context) (Ack, error) {
	if err := ctx.Err(); err != nil {
		return Ack{}, backoff.Permanent(err)
	}
	if err := p.b.prepare(ctx, p.Subject); err != nil {
		return Ack{}, classify(err)
	}
	ack, ok, rejection := p.b.out.Publish(p.Subject, p.Header, p.Body, ctx.Done())
	if !ok {
		return Ack{}, backoff.Permanent(ctx.Err())
	}
	err := classify(rejection)
	if errors.Is(err, jetstream.ErrNoStreamResponse) { // if somebody deleted the stream, prepare creates it again
		if stream, ok := p.b.streamOf(p.Subject); ok {
			p.b.handles.Delete(p.b.StreamName(stream))
		}
	}
	if errors.Is(err, ErrSubjectExists) {
		err = p.checkRejection(ctx)
	}
	p.b.space.Note(p.Subject, rejection)
	return ack, err
}

// errNotStored means that the server rejected a message because of another one on its
// subject, which is not stored.
var errNotStored = errors.New("the server rejected the message because of another one on the subject, which is not stored")

// checkRejection returns ErrSubjectExists if a message is stored on the subject. A
// replicated stream also rejects a message if another one is in flight, which perhaps
// no replica ever stores. Then checkRejection returns an error that is not final.
func (p publication) checkRejection(ctx context.Context) error {
	stream, ok := p.b.streamOf(p.Subject)
	if !ok {
		return ErrSubjectExists
	}
	ctx, cancel := context.WithTimeout(ctx, p.b.cfg.Timeout)
	defer cancel()
	_, err := p.b.api.GetMessage(ctx, p.b.StreamName(stream), jsapi.Get{LastBySubject: p.Subject})
	switch {
	case err == nil:
		return ErrSubjectExists
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return errNotStored
	}
	return fmt.Errorf("%w; cannot check it: %w", errNotStored, err)
}

// classify maps rejections of the server to the errors above. Several of them have
// the same code, so it compares the text.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case !errors.As(err, &api):
		return err
	case api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence,
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant: // of a replicated stream, while another change is in flight
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case strings.Contains(api.Description, "maximum messages per subject"):
		return ErrSubjectExists
	case strings.Contains(api.Description, "size exceeds maximum"):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case jsapi.IsNoSpace(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// isFinal reports whether an immediate retry of a publish cannot succeed.
func isFinal(err error) bool {
	return errors.Is(err, ErrSubjectExists) || errors.Is(err, ErrConflict) || errors.Is(err, ErrFull) ||
		errors.Is(err, ErrTooLarge) || errors.Is(err, nats.ErrConnectionClosed)
}

// isRejected reports whether the server rejected a request and will reject it again.
func isRejected(err error) bool {
	if _, ok := errors.AsType[*jsapi.FormatError](err); ok {
		return true
	}
	const inProcess = 10158 // of a replicated stream, which may yet store the same message; server/errors.json of nats-server
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code < 500 && api.ErrorCode != inProcess || errors.Is(err, nats.ErrPermissionViolation)
}

// Encode returns v as JSON without HTML escapes.
func Encode(v any) ([]byte, error) {
	data, err := jsonform.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return data, nil
}

// ExpectRevision returns the header that makes a publish fail with ErrConflict
// unless the last message on the subject has that sequence (0: there is none).
func ExpectRevision(sequence uint64) nats.Header {
	return nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(sequence, 10)}}
}
