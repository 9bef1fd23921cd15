package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Stream returns the handle of a stream. It caches the handle, because each lookup is
// a request. A stream of another format is a *jsapi.FormatError: it was created after Connect.
func (b *Bus) Stream(ctx context.Context, stream string) (s jetstream.Stream, err error) {
	name := b.StreamName(stream)
	if s, ok := b.handles.Load(name); ok {
		return s.(jetstream.Stream), nil
	}
	err = b.WatchDenial(ctx, b.api.Subject("STREAM.INFO."+name), func(ctx context.Context) (err error) {
		s, err = b.js.Stream(ctx, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	if err := b.checkFormat(s.CachedInfo()); err != nil && !b.cfg.AnyFormat {
		return nil, err
	}
	b.handles.Store(name, s)
	return s, nil
}

// LookUp returns the stream with a full name.
func (b *Bus) LookUp(ctx context.Context, name string) (stream jetstream.Stream, err error) {
	err = b.WatchDenial(ctx, b.api.Subject("STREAM.INFO."+name), func(ctx context.Context) error {
		return WithChangeTimeout(ctx, func(ctx context.Context) (err error) {
			stream, err = b.js.Stream(ctx, name)
			return err
		})
	})
	return stream, err
}

// Bucket returns the handle of one of the KV buckets, such as TasksBucket, and creates the bucket
// if it was never used. It caches the handle.
func (b *Bus) Bucket(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	name := b.BucketName(bucket)
	if kv, ok := b.handles.Load("KV " + name); ok {
		return kv.(jetstream.KeyValue), nil
	}
	kv, err := b.js.KeyValue(ctx, name)
	if b.IsUnused(ctx, "KV_"+name, err) {
		if err = b.create(ctx, "KV_"+name); err == nil {
			kv, err = b.js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	b.handles.Store("KV "+name, kv)
	return kv, nil
}

// WatchKeys watches the keys of one of the KV buckets that match a pattern. Until the server
// starts the watch or rejects it, WatchKeys tries again.
func WatchKeys(ctx context.Context, b *Bus, bucket, keys string, opts ...jetstream.WatchOpt) (watcher jetstream.KeyWatcher, err error) {
	err = UntilAnswered(ctx, b, "cannot watch "+b.BucketName(bucket), func() error {
		kv, err := b.Bucket(ctx, bucket)
		if err == nil {
			watcher, err = kv.Watch(ctx, keys, opts...)
		}
		return err
	})
	return watcher, err
}
