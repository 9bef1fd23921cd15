package task

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// listTimeout limits the reading of a list of records.
const listTimeout = 10 * time.Second

// eachRecord calls f for each record in the bucket of tasks whose key matches the pattern.
// It returns an error if it could not read all of them.
func eachRecord(ctx context.Context, b *bus.Bus, pattern string, f func(jetstream.KeyValueEntry)) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err != nil {
		return err
	}
	watcher, err := kv.Watch(ctx, pattern, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Stop() }() // fails only if ctx has ended
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case entry, ok := <-watcher.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return ctx.Err()
			case !ok:
				return errors.New("the watch ended")
			case entry == nil:
				return nil
			}
			f(entry)
		}
	}
}
