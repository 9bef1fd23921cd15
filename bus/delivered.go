package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const deliveredKey = "delivered"

// SetDelivered records that a channel took the notification of a key, and
// remembers it for a time. Both names are tokens.
func (b *Bus) SetDelivered(ctx context.Context, channel, key string, kept time.Duration) error {
	kv, err := b.Bucket(ctx, TasksBucket)
	if err == nil {
		_, err = kv.Create(ctx, strings.Join([]string{deliveredKey, channel, key}, "."), []byte(time.Now().UTC().Format(time.RFC3339)), jetstream.KeyTTL(kept))
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("record the delivery of %s: %w", key, err)
	}
	return nil
}

// Delivered reports whether SetDelivered recorded the notification.
func (b *Bus) Delivered(ctx context.Context, channel, key string) (bool, error) {
	kv, err := b.Bucket(ctx, TasksBucket)
	if err == nil {
		_, err = kv.Get(ctx, strings.Join([]string{deliveredKey, channel, key}, "."))
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) { // a deleted one, too
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the delivery of %s: %w", key, err)
	}
	return true, nil
}

// Bucket returns one of the KV buckets, such as TasksBucket. The lookup is a
// request, so the bus keeps the handle.
func (b *Bus) Bucket(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	name := b.BucketName(bucket)
	if kv, ok := b.handles.Load("KV " + name); ok {
		return kv.(jetstream.KeyValue), nil
	}
	kv, err := b.js.KeyValue(ctx, name)
	if err != nil {
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			return nil, fmt.Errorf("bucket %s: %w (Provision creates what is missing, as \"worker provision\" does)", name, err)
		}
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	b.handles.Store("KV "+name, kv)
	return kv, nil
}
