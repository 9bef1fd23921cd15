package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// RepublishCall publishes a call again that was acknowledged without a result, because it
// waited elsewhere. The worker handles it as a redelivery. The key identifies this message.
// The subject may still hold the acknowledged message, or one of a client that submitted
// the call again; this message replaces it. If the process dies in between, the call is
// only where it waited, so the caller removes it there last.
func (b *Bus) RepublishCall(ctx context.Context, subject string, body []byte, key string, header nats.Header) error {
	all := republished(key)
	maps.Copy(all, header)
	m := Message{Subject: subject, Body: body, Header: all, Key: key, WaitIfFull: true}
	var err error
	for range 3 { // clients may submit the call meanwhile
		if _, err = b.Publish(ctx, m); !errors.Is(err, ErrSubjectExists) {
			return err
		}
		done, removeErr := b.removeOther(ctx, Calls, subject, key)
		if done || removeErr != nil {
			return removeErr
		}
	}
	return err
}

// removeOther deletes the message on a subject, unless it has the key: then it reports
// that it is stored.
func (b *Bus) removeOther(ctx context.Context, stream, subject, key string) (isStored bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	m, err := b.api.GetFromLeader(ctx, b.StreamName(stream), jsapi.Get{LastBySubject: subject})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %q: %w", subject, err)
	case m.Header.Get(jetstream.MsgIDHeader) == key:
		return true, nil
	}
	return false, b.DeleteMessage(ctx, stream, m.Sequence)
}

// DeleteMessage deletes a message, if it still exists.
func (b *Bus) DeleteMessage(ctx context.Context, stream string, sequence uint64) error {
	return b.api.DeleteMessage(ctx, b.StreamName(stream), sequence)
}
