package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// LastMessage returns the last message on a subject of a stream, or ok false.
func (b *Bus) LastMessage(ctx context.Context, stream, subject string) (body []byte, ok bool, err error) {
	body, sequence, err := b.LastMessageSeq(ctx, stream, subject)
	return body, sequence > 0, err
}

// LastMessageSeq returns the last message on a subject of a stream and its sequence,
// which is 0 if there is none, for ExpectRevision.
func (b *Bus) LastMessageSeq(ctx context.Context, stream, subject string) (body []byte, sequence uint64, err error) {
	if err := CheckSubject(subject); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return nil, 0, err
	}
	msg, err := s.GetLastMsgForSubject(ctx, subject)
	switch {
	case err == nil:
		return msg.Data, msg.Sequence, nil
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, fmt.Errorf("read %q: %w", subject, err)
	case s.CachedInfo().Config.Replicas <= 1:
		return nil, 0, nil
	}
	// The replica that answered may lag behind; only the leader knows.
	last, err := b.api.GetFromLeader(ctx, b.StreamName(stream), jsapi.Get{LastBySubject: subject})
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, fmt.Errorf("read %q: %w", subject, err)
	}
	return last.Data, last.Sequence, nil
}

// ReadSubjects calls f for every message that a stream has now on the given subjects,
// which may have wildcards, in order. It stops at an error of f. It uses an ordered
// consumer, which a work-queue stream does not allow.
func (b *Bus) ReadSubjects(ctx context.Context, stream string, subjects []string, f func(subject string, body []byte) error) error {
	cons, err := b.js.OrderedConsumer(ctx, b.StreamName(stream), jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", b.StreamName(stream), err)
	}
	for {
		batch, err := cons.FetchNoWait(500)
		if err != nil {
			return fmt.Errorf("read stream %s: %w", b.StreamName(stream), err)
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			if err := f(msg.Subject(), msg.Data()); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoMessages) {
			return fmt.Errorf("read stream %s: %w", b.StreamName(stream), err)
		}
		if n == 0 {
			return ctx.Err()
		}
	}
}

// Stream returns the handle of a stream. It caches the handle, because each lookup is
// a request.
func (b *Bus) Stream(ctx context.Context, stream string) (jetstream.Stream, error) {
	name := b.StreamName(stream)
	if s, ok := b.handles.Load(name); ok {
		return s.(jetstream.Stream), nil
	}
	var s jetstream.Stream
	err := b.WatchDenial(ctx, b.api.Subject("STREAM.INFO."+name), func(ctx context.Context) (err error) {
		s, err = b.js.Stream(ctx, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	b.handles.Store(name, s)
	return s, nil
}

// Bucket returns the handle of one of the KV buckets, such as TasksBucket. It caches
// the handle.
func (b *Bus) Bucket(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	name := b.BucketName(bucket)
	if kv, ok := b.handles.Load("KV " + name); ok {
		return kv.(jetstream.KeyValue), nil
	}
	kv, err := b.js.KeyValue(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return nil, fmt.Errorf("bucket %s: %w; \"worker provision\" creates it", name, err)
	case err != nil:
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	b.handles.Store("KV "+name, kv)
	return kv, nil
}
