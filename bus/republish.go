package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

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

// storeUnderOtherKey handles the answer "duplicate": the stream had a message with the key.
// Another client may have used the key on purpose, so that this message is dropped. So it
// is published under another key, unless the stream holds it. That key is made of the
// message, so the server still drops a copy. If a client knew that key too, the last one is
// random.
func (p publication) storeUnderOtherKey(ctx context.Context, ack Ack) (Ack, error) {
	sum := sha256.Sum256(append([]byte(p.Subject+"\n"), p.Body...))
	for _, key := range []string{p.Key + "-" + hex.EncodeToString(sum[:16]), nuid.Next()} {
		if stored, err := p.isStored(ctx, ack.Sequence); stored || err != nil {
			return ack, err
		}
		p.Header = withKey(p.Header, key)
		var err error
		if ack, err = p.store(ctx); err != nil || !ack.Duplicate {
			return ack, err
		}
	}
	return ack, nil
}

// isStored reports whether the message with the sequence is this one. A server that has just started
// may answer later than it accepts messages. A client that may not read the stream cannot
// know: then isStored returns false.
func (p publication) isStored(ctx context.Context, sequence uint64) (bool, error) {
	b := p.b
	name, ok := b.streamOf(p.Subject)
	if !ok {
		return true, nil // it has no stream of ours
	}
	name = b.StreamName(name)
	var stored jsapi.Message
	isFinal := func(err error) bool {
		return errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrConnectionClosed)
	}
	err := publishAgain(ctx, b, p.timeout(), isFinal, func() error {
		ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		return b.WatchDenial(ctx, b.api.Subject("STREAM.MSG.GET."+name), func(ctx context.Context) (err error) {
			stored, err = b.api.GetFromLeader(ctx, name, jsapi.Get{Sequence: sequence})
			return err
		})
	})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, nats.ErrPermissionViolation):
		return false, nil // it was removed, or cannot be read
	case err != nil:
		return false, err
	case stored.Subject != p.Subject:
		return false, nil
	case p.Same != nil:
		return p.Same(stored.Data), nil
	}
	return bytes.Equal(stored.Data, p.Body), nil
}

func withKey(header nats.Header, key string) nats.Header {
	all := nats.Header{} // do not change the caller's header
	maps.Copy(all, header)
	all[jetstream.MsgIDHeader] = []string{key}
	return all
}
