package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Each stream costs its server memory, and a cluster a Raft group. So an installation for many
// tenants creates the streams that few of them use when something is stored there for the first
// time, and the bucket of the state when it is first read. The metadata of the stream of calls says
// so. Only then is a missing stream an empty one. Otherwise somebody deleted it, or the prefix is
// wrong, and reading it is an error.

// onDemandKey is the key in the metadata of the stream of calls.
const onDemandKey = "stevedore.on_demand"

// usedInterval is how often a consumer looks whether its stream exists now. A process that
// creates it tells the others, so this is for a hint that was lost.
const usedInterval = time.Minute

// onDemand are the streams that can be created at their first use.
var onDemand = []string{Ticks, Outbox, Sessions, Dead}

// OnDemand returns the full names of these streams, and of those of such buckets.
func (s Subjects) OnDemand() []string {
	names := []string{s.BucketStream(StateBucket)}
	for _, stream := range onDemand {
		names = append(names, s.StreamName(stream))
	}
	return names
}

// IsUnused reports whether a stream that does not exist was never used, so that it is empty. name
// is its full name, and err the error of the lookup.
func (b *Bus) IsUnused(ctx context.Context, name string, err error) bool {
	if !errors.Is(err, jetstream.ErrStreamNotFound) && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return false
	}
	calls, err := b.Stream(ctx, Calls)
	return err == nil && b.MayBeUnused(name, calls.CachedInfo().Config)
}

// MayBeUnused reports whether a stream is created at its first use. name is its full name, and calls
// the configuration of the stream of calls.
func (s Subjects) MayBeUnused(name string, calls jetstream.StreamConfig) bool {
	return calls.Metadata[onDemandKey] != "" && slices.Contains(s.OnDemand(), name)
}

// UsedStream is Stream, but returns nil if the stream was never used.
func (b *Bus) UsedStream(ctx context.Context, stream string) (jetstream.Stream, error) {
	s, err := b.Stream(ctx, stream)
	if b.IsUnused(ctx, b.StreamName(stream), err) {
		return nil, nil
	}
	return s, err
}

// AwaitUse returns when a stream exists.
func (b *Bus) AwaitUse(ctx context.Context, stream string) error {
	for {
		hint := b.space.hint()
		s, err := b.UsedStream(ctx, stream)
		if s != nil || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hint:
		case <-time.After(usedInterval):
		}
	}
}

// prepare creates the stream of a subject if it was never used. The publish itself finds out what
// else is wrong with the stream.
func (b *Bus) prepare(ctx context.Context, subject string) error {
	stream, ok := b.streamOf(subject)
	if !ok || !slices.Contains(onDemand, stream) {
		return nil
	}
	if s, err := b.UsedStream(ctx, stream); s != nil || err != nil {
		return nil
	}
	if err := b.create(ctx, b.StreamName(stream)); err != nil {
		return err
	}
	b.space.Free(stream)
	return nil
}

// create creates a stream as the stream of calls is: where, with as many replicas, and of the same
// size if none is configured.
func (b *Bus) create(ctx context.Context, name string) error {
	calls, err := b.Stream(ctx, Calls)
	if err != nil {
		return err
	}
	info, err := calls.Info(ctx)
	if err != nil {
		return err
	}
	cfg := b.cfg
	cfg.Replicas = info.Config.Replicas
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = info.Config.MaxBytes
	}
	want := b.StreamOf(cfg, name)
	want.Placement = info.Config.Placement
	err = b.WatchDenial(ctx, b.api.Subject("STREAM.CREATE."+name), func(ctx context.Context) error {
		return WithChangeTimeout(ctx, func(ctx context.Context) error {
			_, err := b.js.CreateStream(ctx, want)
			return err
		})
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process created it
		return fmt.Errorf("create the stream %s at its first use: %w", name, err)
	}
	return nil
}
