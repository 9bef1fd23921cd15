package task

import (
	"context"
	"errors"
	"fmt"

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
