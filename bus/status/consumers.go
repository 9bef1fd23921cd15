package status

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// Consumers returns the consumers of a stream whose names begin with the name of like,
// by the rest of their names: those of the queues that workers serve or have served are like
// b.WorkerConsumer(""), those of the channels like b.ChannelConsumer("").
func Consumers(ctx context.Context, b *bus.Bus, like bus.Consumer) (map[string]*jetstream.ConsumerInfo, error) {
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
