package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ChannelServed reports whether somebody delivers to a channel, in whatever
// process: it has a durable consumer then. That stays when the process is down,
// so that the channel's notifications wait for it.
func (b *Bus) ChannelServed(ctx context.Context, channel string) (bool, error) {
	c := b.ChannelConsumer(channel)
	_, err := b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, fmt.Errorf("look up channel %q: %w", channel, err)
	}
	return err == nil, nil
}

// ServeChannel makes a channel known as served, before anybody delivers to it.
func (b *Bus) ServeChannel(ctx context.Context, channel string) error {
	_, err := b.consumer(ctx, b.ChannelConsumer(channel))
	return err
}
