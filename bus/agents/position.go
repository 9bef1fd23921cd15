package agents

import (
	"context"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// positionKey is the key in the bucket tasks of how far a chat was read.
func (in *Inbox) positionKey(chat string) string {
	return "position." + in.channel + "." + tools.Token(chat)
}

// position returns how far a bridge has read a chat, as setPosition stored it, or "".
func (in *Inbox) position(ctx context.Context, chat string) (string, error) {
	m, err := in.bus.Entry(ctx, in.positionKey(chat))
	if err != nil {
		return "", fmt.Errorf("read how far the chat was read: %w", err)
	}
	return string(m.Data), nil
}

func (in *Inbox) setPosition(ctx context.Context, chat, position string) error {
	kv, err := in.bus.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		_, err = kv.PutString(ctx, in.positionKey(chat), position)
	}
	if err != nil {
		return fmt.Errorf("store how far the chat was read: %w", err)
	}
	return nil
}
