package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrTaken: the subject has its one message already; the first one won.
	ErrTaken = errors.New("the subject is taken")
	// ErrFull: the stream holds as much as it may. Nothing was accepted.
	ErrFull = errors.New("the stream is full")
	// ErrConflict: the subject is not as it was expected to be; somebody else
	// wrote to it.
	ErrConflict = errors.New("changed meanwhile")
	// ErrTooLarge: the message is over the server's limit (max_payload).
	ErrTooLarge = errors.New("the message is too large")
)

const (
	// maxInFlight bounds the publishes that wait for their acknowledgement.
	maxInFlight = 8192
	// publishPatience is how long an acknowledgement is sought, over retries,
	// before the publish fails.
	publishPatience = 30 * time.Second
)

// Message is something to publish.
type Message struct {
	Subject string
	Body    []byte
	// Header is sent as it is. Nothing of an incoming message belongs in it.
	Header nats.Header
	// Key makes repeated publishes one (Nats-Msg-Id). Leave it empty only where
	// the stream keeps one message per subject anyway.
	Key string
}

// Ack says where a message is stored.
type Ack struct {
	Sequence uint64
	// Duplicate: the key was seen before; the message was stored then.
	Duplicate bool
}

// Publish publishes durably: when it returns without an error, the message is
// stored. A missing acknowledgement says nothing about the message, so the
// publish is repeated with the same key, for half a minute; then the error is an
// ErrUnreachable. ErrTaken, ErrFull, ErrConflict, ErrTooLarge and a closed
// connection are final. All durable publishing of Stevedore goes through here.
func (b *Bus) Publish(ctx context.Context, m Message) (Ack, error) {
	if err := CheckSubject(m.Subject); err != nil {
		return Ack{}, fmt.Errorf("publish: %w", err)
	}
	if m.Key != "" {
		header := nats.Header{jetstream.MsgIDHeader: {m.Key}}
		maps.Copy(header, m.Header) // the caller's stays as it is
		m.Header = header
	}
	ack, err := b.publishOnce(ctx, m)
	if err == nil || isFinal(err) {
		return ack, publishError(m.Subject, err)
	}
	err = b.persist(ctx, isFinal, func() error {
		ack, err = b.publishOnce(ctx, m)
		return err
	})
	return ack, publishError(m.Subject, err)
}

// persist calls f until it succeeds or fails for good. If it did neither for half a
// minute, as while a cluster has no leader, the error is an ErrUnreachable.
func (b *Bus) persist(ctx context.Context, isFinal func(error) bool, f func() error) error {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second),
		backoff.WithMaxElapsedTime(publishPatience))
	var last error
	err := backoff.Retry(func() error {
		err := f()
		if err != nil && ctx.Err() == nil {
			last = err
		}
		if isFinal(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx))
	switch {
	case err == nil, isFinal(err), isRefusal(err):
		return err
	case ctx.Err() != nil && last != nil:
		return fmt.Errorf("%w; before that: %v", err, last) // what it is that takes so long
	case ctx.Err() != nil:
		return err
	}
	return fmt.Errorf("%w: JetStream at %s did not work for %s: %w", ErrUnreachable, b.address(), publishPatience, err)
}

func (b *Bus) publishOnce(ctx context.Context, m Message) (Ack, error) {
	if err := ctx.Err(); err != nil {
		return Ack{}, backoff.Permanent(err)
	}
	a, ok := b.out.publish(m.Subject, m.Header, m.Body, ctx.Done())
	if !ok {
		return Ack{}, backoff.Permanent(ctx.Err())
	}
	return a.Ack, classify(a.err)
}

// classify gives the refusals that callers act on their names. The server has
// one code for several of them, so the text must tell.
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
	case api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case strings.Contains(api.Description, "maximum messages per subject"):
		return ErrTaken
	case strings.Contains(api.Description, "size exceeds maximum"):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case strings.Contains(api.Description, "maximum bytes"), strings.Contains(api.Description, "maximum messages"),
		strings.Contains(api.Description, "insufficient"), strings.Contains(api.Description, "resource limits"), strings.Contains(api.Description, "no space"):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

func isFinal(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrConflict) || errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge) ||
		errors.Is(err, nats.ErrConnectionClosed)
}

// isRefusal reports whether the server will answer a request the same way again.
func isRefusal(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code < 500 || errors.Is(err, nats.ErrPermissionViolation)
}

func publishError(subject string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("publish to %q: %w", subject, err)
}

// Encode returns v as JSON without HTML escapes, for bodies that people read.
func Encode(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.buf.Reset()
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))), nil
}

type encoder struct {
	*json.Encoder
	buf bytes.Buffer
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.Encoder = json.NewEncoder(&e.buf)
	e.SetEscapeHTML(false)
	return e
}}

// ExpectRevision returns the header that makes a publish fail with ErrConflict
// unless the subject's newest message is the one of that sequence.
func ExpectRevision(sequence uint64) nats.Header {
	return nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(sequence, 10)}}
}
