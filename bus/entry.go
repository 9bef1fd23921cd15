package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// EntrySubject is the subject under which the tasks bucket stores a key, which may have wildcards.
func (s Subjects) EntrySubject(key string) string {
	return "$KV." + s.BucketName(TasksBucket) + "." + key
}

// Entry returns what a key of the tasks bucket has. Sequence is its revision, 0 if it never had a value; without
// Data, it expired or was deleted. Entry asks the leader, because a replica may lag behind.
func (b *Bus) Entry(ctx context.Context, key string) (jsapi.Message, error) {
	m, err := b.api.GetFromLeader(ctx, "KV_"+b.BucketName(TasksBucket), jsapi.Get{LastBySubject: b.EntrySubject(key)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return jsapi.Message{}, nil
	}
	return m, err
}

// PutEntry stores the value of a key of the tasks bucket in place of a revision, and returns the new one.
// ErrConflict means that the key has another revision, ErrTooLarge and ErrFull that nothing was stored. The
// value expires after ttl, if that is not 0; KeyValue.Update has no TTL.
func (b *Bus) PutEntry(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	header := ExpectRevision(revision)
	if ttl > 0 {
		header[jetstream.MsgTTLHeader] = []string{ttl.String()}
	}
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.api.PutSubject(b.EntrySubject(key)), Data: value, Header: header})
	if err != nil {
		return 0, classify(err)
	}
	return ack.Sequence, nil
}
