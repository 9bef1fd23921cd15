package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Last returns the newest message on a subject of a stream, or ok false.
func (b *Bus) LastMessage(ctx context.Context, stream, subject string) (body []byte, ok bool, err error) {
	body, sequence, err := b.LastMessageSeq(ctx, stream, subject)
	return body, sequence > 0, err
}

// LastRevision returns the newest message on a subject of a stream and its
// sequence, which is 0 if there is none: what ExpectRevision wants.
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

const (
	// maxOldCalls and maxOldBytes are how much FindStaleCall looks at. Behind so many
	// the one that is looked for is not worth the time.
	maxOldCalls = 1000
	maxOldBytes = 16 << 20
	// maxYoungCalls is how many of them it looks at that are young: one batch, because
	// every call that brings its own id pays for it.
	maxYoungCalls = 256
)

// FindStaleCall reports whether a call waits on a subject, or is being handled, whose
// key may be forgotten: publishing it again would make it two. That is so if it
// was published long ago, or if it was requeued, because then the message has
// another key. Others are told by their key. It looks at the first 1,000 at most,
// and at the first 256 that are young. A server that gives no answer is asked again
// for half a minute; then the error is an ErrUnreachable.
func (b *Bus) FindStaleCall(ctx context.Context, subject string, is func(body []byte) bool) (found bool, err error) {
	if err := CheckSubject(subject); err != nil {
		return false, err
	}
	isFinal := func(err error) bool { return isFinal(err, false) || isRejected(err) }
	err = b.retry(ctx, defaultTimeout, isFinal, func() error {
		found, err = b.findStaleCall(ctx, subject, is)
		return err
	})
	return found, err
}

func (b *Bus) findStaleCall(ctx context.Context, subject string, is func(body []byte) bool) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	if _, err := b.Stream(ctx, Calls); errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read %q: %w", subject, err)
	}
	// Half the time leaves the other half to clocks that differ.
	young, seen := time.Now().Add(-keysKept/2), 0
	_, err = b.ScanDirect(ctx, Calls, subject, maxOldCalls, maxOldBytes, func(m Stored) bool {
		if m.At.After(young) {
			if seen++; seen > maxYoungCalls {
				return false
			}
			if !m.Requeued {
				return true
			}
		}
		found = is(m.Body)
		return !found
	})
	if err != nil {
		return false, fmt.Errorf("read %q: %w", subject, err)
	}
	return found, nil
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
