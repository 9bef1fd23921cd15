package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
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

// HasMessage reports whether a stream has a message on a subject. Any replica answers, so
// it may miss one that was stored just now.
func (b *Bus) HasMessage(ctx context.Context, stream, subject string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	ok, err := b.api.HasMessage(ctx, b.StreamName(stream), subject)
	if err != nil {
		return false, fmt.Errorf("read %q: %w", subject, err)
	}
	return ok, nil
}

// ReadSubjects calls f for every message that a stream has now on the given subjects,
// which may have wildcards, in order. It stops at an error of f. It uses one iterator of
// an ordered consumer, which a work-queue stream does not allow. Every fetch from an
// ordered consumer would create a new one, and direct gets need twice the CPU time.
func (b *Bus) ReadSubjects(ctx context.Context, stream string, subjects []string, f func(subject string, body []byte) error) error {
	if err := b.readSubjects(ctx, stream, subjects, f); err != nil {
		return fmt.Errorf("read stream %s: %w", b.StreamName(stream), cmp.Or(ctx.Err(), err))
	}
	return nil
}

func (b *Bus) readSubjects(ctx context.Context, stream string, subjects []string, f func(subject string, body []byte) error) error {
	cons, err := b.js.OrderedConsumer(ctx, b.StreamName(stream), jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: time.Minute,
	})
	if err != nil || cons.CachedInfo().NumPending == 0 {
		return err
	}
	messages, err := cons.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(b.cfg.Timeout))
		if errors.Is(err, nats.ErrTimeout) { // the rest may have been deleted meanwhile
			info, err := cons.Info(ctx)
			if err != nil || info.NumPending == 0 {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := f(msg.Subject(), msg.Data()); err != nil {
			return err
		}
		if meta, err := msg.Metadata(); err != nil || meta.NumPending == 0 {
			return err
		}
	}
}

// Stream returns the handle of a stream. It caches the handle, because each lookup is
// a request. A stream of another format is a *FormatError.
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
	if _, err := jsapi.CheckFormat(s.CachedInfo()); err != nil {
		return nil, err
	}
	b.handles.Store(name, s)
	return s, nil
}

// ServerTime returns the time by the clock of the server.
func (b *Bus) ServerTime(ctx context.Context) (time.Time, error) {
	kv, err := b.Bucket(ctx, TasksBucket)
	if err != nil {
		return time.Time{}, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the server: %w", err)
	}
	info, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok || info.StreamInfo().TimeStamp.IsZero() {
		return time.Time{}, errors.New("read the time of the server: it does not tell")
	}
	return info.StreamInfo().TimeStamp, nil
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
		return nil, fmt.Errorf("bucket %s: %w; \"stevedore provision\" creates it", name, err)
	case err != nil:
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	b.handles.Store("KV "+name, kv)
	return kv, nil
}

// WatchKeys watches keys of one of the KV buckets. Until the server starts the watch or
// rejects it, WatchKeys tries again.
func (b *Bus) WatchKeys(ctx context.Context, bucket string, keys ...string) (watcher jetstream.KeyWatcher, err error) {
	err = b.untilAnswered(ctx, "cannot watch "+b.BucketName(bucket), func() error {
		kv, err := b.Bucket(ctx, bucket)
		if err == nil {
			watcher, err = kv.WatchFiltered(ctx, keys)
		}
		return err
	})
	return watcher, err
}
