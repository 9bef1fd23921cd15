package notify

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// RemoveChannel removes the consumer of a channel. The notifiers then move what waits for it, and what is sent to it later,
// to the default channel. An unknown channel is a [tools.CodeNotFound]. The caller makes sure that no process serves the
// channel: it would make the consumer again, and send again what it sends now. status.Channel says so.
func RemoveChannel(ctx context.Context, b *bus.Bus, name string) error {
	consumer := b.ChannelConsumer(tools.Token(name))
	err := b.JetStream().DeleteConsumer(ctx, b.StreamName(consumer.Stream), consumer.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return tools.Errorf(tools.CodeNotFound, "no process has served a channel %q", name)
	}
	if err != nil {
		return fmt.Errorf("remove the channel %q: %w", name, err)
	}
	return nil
}
