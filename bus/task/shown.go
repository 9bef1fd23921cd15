package task

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Shown is a message in a chat that shows that a call is in progress. It is stored so that
// another process can change or remove the message if the one that sent it dies.
type Shown struct {
	Call    tools.CallKey `json:"call"`
	Tool    string        `json:"tool"`
	Channel string        `json:"channel"`
	ChatID  string        `json:"chat_id"`
	// Message is its id in the chat. It is empty if there is none at the moment.
	Message string `json:"message,omitempty"`
}

const shownKey = "shown"

// StoreShown stores s in place of an earlier one of its call.
func StoreShown(ctx context.Context, b *bus.Bus, s Shown) error {
	body, err := bus.Encode(s)
	if err != nil {
		return err
	}
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		_, err = kv.Put(ctx, keyOf(shownKey, s.Call), body)
	}
	if err != nil {
		return fmt.Errorf("store the status of call %s: %w", s.Call.ID, err)
	}
	return nil
}

// RemoveShown removes what StoreShown stored for a call.
func RemoveShown(ctx context.Context, b *bus.Bus, k tools.CallKey) error {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		err = kv.Purge(ctx, keyOf(shownKey, k), jetstream.PurgeTTL(recordTTL))
	}
	if err != nil {
		return fmt.Errorf("remove the status of call %s: %w", k.ID, err)
	}
	return nil
}

// ListShown returns what is stored for the calls of a channel.
func ListShown(ctx context.Context, b *bus.Bus, channel string) ([]Shown, error) {
	var all []Shown
	err := eachRecord(ctx, b, keyOf(shownKey, tools.CallKey{Session: "*", ID: "*"}), func(entry jetstream.KeyValueEntry) {
		var s Shown
		if json.Unmarshal(entry.Value(), &s) == nil && s.Channel == channel && entry.Key() == keyOf(shownKey, s.Call) {
			all = append(all, s)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the status of calls: %w", err)
	}
	return all, nil
}
