package bus

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Queues returns the consumers of the queues, by queue: those that workers serve or
// have served.
func (b *Bus) Queues(ctx context.Context) (map[string]*jetstream.ConsumerInfo, error) {
	return b.consumers(ctx, b.WorkerConsumer(""))
}

// Channels returns the consumers of the channels, by channel.
func (b *Bus) Channels(ctx context.Context) (map[string]*jetstream.ConsumerInfo, error) {
	return b.consumers(ctx, b.ChannelConsumer(""))
}

// consumers returns the consumers of a stream whose names begin with the name of like,
// by the rest of their names.
func (b *Bus) consumers(ctx context.Context, like Consumer) (map[string]*jetstream.ConsumerInfo, error) {
	s, err := b.Stream(ctx, like.Stream)
	if err != nil {
		return nil, err
	}
	found := map[string]*jetstream.ConsumerInfo{}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if name, ok := strings.CutPrefix(info.Name, like.Name); ok {
			found[name] = info
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list the consumers of %s: %w", b.StreamName(like.Stream), err)
	}
	return found, nil
}
