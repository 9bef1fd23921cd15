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

// Republish publishes a message again that was settled without an effect: it was a dead
// letter, or waited elsewhere. The message keeps its id and its attempts start again; its key
// identifies this publish. Consumers see it as consume.Delivery.Republished.
//
// The subject may still hold the settled message, or one that a client submitted meanwhile.
// If replaces reports true for its sequence, Republish deletes it first. If the process dies
// in between, the message is only where the caller has it, so the caller removes it there
// last.
func (b *Bus) Republish(ctx context.Context, m Message, id string, replaces func(sequence uint64) bool) error {
	header := nats.Header{idHeader: {id}}
	maps.Copy(header, m.Header)
	m.Header = header
	var err error
	for range 3 { // clients may submit the message meanwhile
		if _, err = b.Publish(ctx, m); !errors.Is(err, ErrSubjectExists) {
			return err
		}
		stream, _ := b.streamOf(m.Subject)
		stored, readErr := b.api.GetFromLeader(ctx, b.StreamName(stream), jsapi.Get{LastBySubject: m.Subject})
		switch {
		case errors.Is(readErr, jetstream.ErrMsgNotFound):
			continue
		case readErr != nil:
			return fmt.Errorf("read %q: %w", m.Subject, readErr)
		case stored.Header.Get(jetstream.MsgIDHeader) == m.Key:
			return nil
		case !replaces(stored.Sequence):
			return err
		}
		if err := b.Delete(ctx, stream, stored.Sequence); err != nil {
			return err
		}
	}
	return err
}
