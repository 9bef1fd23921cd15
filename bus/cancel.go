package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// cancelKept is how long a cancellation is remembered: as long as the answer
// that it is. A call that waits longer for a worker is answered as stale.
const cancelKept = ResultsKept

const cancelKey = "cancel"

// Cancel records that a call is not wanted any more. Workers that have it stop
// it; those that get it later do not start it. The two tokens name the call.
func (b *Bus) Cancel(ctx context.Context, session, call string) error {
	kv, err := b.tasks(ctx)
	if err != nil {
		return fmt.Errorf("cancel call %s: %w", call, err)
	}
	_, err = kv.Create(ctx, strings.Join([]string{cancelKey, session, call}, "."), []byte(time.Now().UTC().Format(time.RFC3339)), jetstream.KeyTTL(cancelKept))
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("cancel call %s: %w", call, err)
	}
	return nil
}

// Cancellations are what a worker does about cancelled calls.
type Cancellations struct {
	// Ready is called once all that are on record were reported.
	Ready func()
	// Cancelled stops a call that runs, and keeps one that comes later from
	// starting, until Forgotten.
	Cancelled, Forgotten func(session, call string)
	// Hinted stops a call that runs, and no other: a client published to the
	// subject Cancel, which leaves no record.
	Hinted func(session, call string)
}

// WatchCancellations reports cancellations, recorded ones first, until ctx ends.
func (b *Bus) WatchCancellations(ctx context.Context, c Cancellations) error {
	kv, err := b.tasks(ctx)
	if err != nil {
		return fmt.Errorf("watch cancellations: %w", err)
	}
	watcher, err := kv.Watch(ctx, cancelKey+".*.*")
	if err != nil {
		return fmt.Errorf("watch cancellations: %w", err)
	}
	hints, err := b.nc.Subscribe(b.Subjects.Cancel("*", "*"), func(msg *nats.Msg) {
		if tokens := b.Split(msg.Subject); len(tokens) == 3 {
			c.Hinted(tokens[1], tokens[2])
		}
	})
	if err != nil {
		return errors.Join(fmt.Errorf("watch cancellations: %w", err), watcher.Stop())
	}
	defer func() {
		_ = hints.Unsubscribe() // gone with the connection otherwise
		_ = watcher.Stop()      // ctx may have ended the watch first
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case entry, ok := <-watcher.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return nil
			case !ok:
				return errors.New("watch cancellations: the watch ended")
			case entry == nil:
				c.Ready()
			default:
				c.report(entry)
			}
		}
	}
}

func (c Cancellations) report(entry jetstream.KeyValueEntry) {
	tokens := strings.Split(entry.Key(), ".")
	switch {
	case len(tokens) != 3:
		// Not one of ours.
	case entry.Operation() == jetstream.KeyValuePut:
		c.Cancelled(tokens[1], tokens[2])
	default:
		c.Forgotten(tokens[1], tokens[2])
	}
}
