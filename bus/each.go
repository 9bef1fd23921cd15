package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Each calls f for every message that a stream holds now on the given subjects,
// which may have wildcards, in order. An error of f ends it.
func (b *Bus) ReadSubjects(ctx context.Context, stream string, subjects []string, f func(subject string, body []byte) error) error {
	cons, err := b.js.OrderedConsumer(ctx, b.StreamName(stream), jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", b.StreamName(stream), err)
	}
	for {
		batch, err := cons.FetchNoWait(500)
		if err != nil {
			return fmt.Errorf("read stream %s: %w", b.StreamName(stream), err)
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			if err := f(msg.Subject(), msg.Data()); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoMessages) {
			return fmt.Errorf("read stream %s: %w", b.StreamName(stream), err)
		}
		if n == 0 {
			return ctx.Err()
		}
	}
}
