package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const stopKey = "stop"

// StoreStop stores which calls the message of a user stops, unless that is stored already,
// and returns the stored ones. k names the message by the tokens of its session and its id.
func StoreStop(ctx context.Context, b *bus.Bus, k tools.CallKey, calls []string) ([]string, error) {
	body, err := bus.Encode(calls)
	if err != nil {
		return nil, err
	}
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		_, err = kv.Create(ctx, keyOf(stopKey, k), body, jetstream.KeyTTL(recordTTL))
	}
	if err == nil {
		return calls, nil
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		var entry jetstream.KeyValueEntry
		if entry, err = kv.Get(ctx, keyOf(stopKey, k)); err == nil {
			calls = nil
			err = json.Unmarshal(entry.Value(), &calls)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("store what message %s stops: %w", k.ID, err)
	}
	return calls, nil
}
