package notify

import (
	"context"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// RemoveChannel removes the consumer of a channel that no process serves any more. The notifiers then move what waits
// for it, and what is sent to it later, to the default channel. An unknown channel is a [tools.CodeNotFound]. A process
// that serves the channel later makes the consumer again.
func RemoveChannel(ctx context.Context, b *bus.Bus, name string) error {
	consumer := b.ChannelConsumer(tools.Token(name))
	info, exists, err := b.ConsumerInfo(ctx, consumer)
	switch {
	case err != nil:
		return err
	case !exists:
		return tools.Errorf(tools.CodeNotFound, "no process has served a channel %q", name)
	case info.NumWaiting > 0:
		return fmt.Errorf("a process serves the channel %q now; stop it, or remove the channel from its settings, and try again", name)
	}
	if err := b.JetStream().DeleteConsumer(ctx, info.Stream, info.Name); err != nil {
		return fmt.Errorf("remove the channel %q: %w", name, err)
	}
	return nil
}
