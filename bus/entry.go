package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// EntrySubject is the subject under which the tasks bucket stores a key, which may have wildcards.
func (s Subjects) EntrySubject(key string) string {
	return "$KV." + s.BucketName(TasksBucket) + "." + key
}

// Entry returns what a key of the tasks bucket has. Sequence is its revision, 0 if it never had a value; without
// Data, it expired or was deleted. Entry asks the leader, because a replica may lag behind.
func (b *Bus) Entry(ctx context.Context, key string) (jsapi.Message, error) {
	m, err := b.api.GetFromLeader(ctx, b.BucketStream(TasksBucket), jsapi.Get{LastBySubject: b.EntrySubject(key)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return jsapi.Message{}, nil
	}
	return m, err
}

// PutEntry stores the value of a key of the tasks bucket in place of a revision, and returns the new one.
// ErrConflict means that the key has another revision, ErrTooLarge and ErrFull that nothing was stored. The
// value expires after ttl, if that is not 0; KeyValue.Update has no TTL. As Publish does, PutEntry repeats a message without
// an acknowledgement: a caller that reads the entry again would change it twice. Without the permission, the error is
// nats.ErrPermissionViolation.
func (b *Bus) PutEntry(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (stored uint64, err error) {
	id := nuid.Next()
	header := withKey(ExpectRevision(revision), id)
	if ttl > 0 {
		header[jetstream.MsgTTLHeader] = []string{ttl.String()}
	}
	final := func(err error) bool { return isFinal(err) || isRejected(err) }
	m := &nats.Msg{Subject: b.api.PutSubject(b.EntrySubject(key)), Data: value, Header: header}
	err = publishAgain(ctx, b, defaultTimeout, final, func() error {
		return b.WatchDenial(ctx, m.Subject, func(ctx context.Context) error {
			ack, err := b.js.PublishMsg(ctx, m)
			if err == nil {
				stored = ack.Sequence
			}
			return classify(err)
		})
	})
	if errors.Is(err, ErrConflict) {
		if m, readErr := b.Entry(ctx, key); readErr == nil && m.Header.Get(jetstream.MsgIDHeader) == id { // the conflict is with this value
			return m.Sequence, nil
		}
	}
	return stored, err
}
