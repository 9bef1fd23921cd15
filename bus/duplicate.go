package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// publishDuplicate handles the answer "duplicate": the stream had a message with the key.
// Another client may have used the key on purpose, so that this message is dropped. So
// publishDuplicate publishes m under another key, unless the stream holds m. That key is
// made of the message, so the server still drops a copy of m. If a client knew that key
// too, the last one is random.
func (b *Bus) publishDuplicate(ctx context.Context, m Message, ack Ack) (Ack, error) {
	sum := sha256.Sum256(append([]byte(m.Subject+"\n"), m.Body...))
	for _, key := range []string{m.Key + "-" + hex.EncodeToString(sum[:16]), nuid.Next()} {
		if b.isStored(ctx, m, ack.Sequence) {
			return ack, nil
		}
		m.Header = withKey(m.Header, key)
		var err error
		if ack, err = b.publishUnder(ctx, m); err != nil || !ack.Duplicate {
			return ack, err
		}
	}
	return ack, nil
}

// isStored reports whether the message with the sequence is m.
func (b *Bus) isStored(ctx context.Context, m Message, sequence uint64) bool {
	stream, ok := b.streamOf(m.Subject)
	if !ok {
		return true // it has no stream of ours
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	stored, err := b.api.GetFromLeader(ctx, b.StreamName(stream), jsapi.Get{Sequence: sequence})
	if err != nil || stored.Subject != m.Subject {
		return false // it was removed, or it is not m
	}
	if m.Same != nil {
		return m.Same(stored.Data)
	}
	return bytes.Equal(stored.Data, m.Body)
}

func withKey(header nats.Header, key string) nats.Header {
	all := nats.Header{} // do not change the caller's header
	maps.Copy(all, header)
	all[jetstream.MsgIDHeader] = []string{key}
	return all
}
