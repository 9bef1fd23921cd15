package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

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
