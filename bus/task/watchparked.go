package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// WatchParked calls changed when calls are parked, answered or continued, until ctx ends.
func WatchParked(ctx context.Context, b *bus.Bus, changed func()) error {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err != nil {
		return fmt.Errorf("watch parked calls: %w", err)
	}
	watcher, err := kv.WatchFiltered(ctx, []string{parkedKey + ".>", answerKey + ".>"}, jetstream.UpdatesOnly(), jetstream.MetaOnly())
	if err != nil {
		return fmt.Errorf("watch parked calls: %w", err)
	}
	defer func() { _ = watcher.Stop() }() // fails if ctx ended the watch first
	for {
		select {
		case <-ctx.Done():
			return nil
		case entry, ok := <-watcher.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return nil
			case !ok:
				return errors.New("watch parked calls: the watch ended")
			case entry != nil:
				changed()
			}
		}
	}
}

// SubscribeParked is WatchParked for users who may not create a consumer. It misses the
// changes that happen while the connection is interrupted.
func SubscribeParked(ctx context.Context, b *bus.Bus, changed func()) error {
	for _, key := range []string{parkedKey, answerKey} {
		sub, err := b.Conn().Subscribe("$KV."+b.BucketName(bus.TasksBucket)+"."+key+".>", func(*nats.Msg) { changed() })
		if err != nil {
			return fmt.Errorf("watch parked calls: %w", err)
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	}
	<-ctx.Done()
	return nil
}
