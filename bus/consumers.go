package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// ConsumerInfo returns the state of a consumer, or ok false if it does not exist.
func (b *Bus) ConsumerInfo(ctx context.Context, c Consumer) (info *jetstream.ConsumerInfo, ok bool, err error) {
	cons, err := b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || b.IsUnused(ctx, b.StreamName(c.Stream), err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look up consumer %s of %s: %w", c.Name, b.StreamName(c.Stream), err)
	}
	return cons.CachedInfo(), true, nil
}

// HasFilter reports whether the consumer, as it exists, delivers what c does.
func (c Consumer) HasFilter(have jetstream.ConsumerConfig) bool {
	if have.FilterSubject != "" {
		return slices.Equal([]string{have.FilterSubject}, c.Filter)
	}
	return slices.Equal(have.FilterSubjects, c.Filter)
}

// Consumer returns the durable consumer, and creates it if it does not exist, with its stream if
// that was never used. It updates one that an earlier version created with another MaxPending,
// Lease or Filter. A process without the permission to do that works with the consumer as it is.
func (b *Bus) Consumer(ctx context.Context, c Consumer) (jetstream.Consumer, error) {
	cons, err := b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if b.IsUnused(ctx, b.StreamName(c.Stream), err) {
		if err = b.create(ctx, b.StreamName(c.Stream)); err == nil {
			err = jetstream.ErrConsumerNotFound
		}
	}
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		err = WithChangeTimeout(ctx, func(ctx context.Context) (err error) {
			cons, err = b.js.CreateConsumer(ctx, b.StreamName(c.Stream), b.cfg.consumerConfig(c))
			return err
		})
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process created it
			cons, err = b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", c.Name, b.StreamName(c.Stream), err)
	}
	have, want := cons.CachedInfo().Config, b.cfg.consumerConfig(c)
	if c.MaxPending == 0 { // processes may have different leases
		want.MaxAckPending, want.AckWait = have.MaxAckPending, have.AckWait
	}
	if have.MaxAckPending == want.MaxAckPending && have.AckWait == want.AckWait && c.HasFilter(have) {
		return cons, nil
	}
	have.MaxAckPending, have.AckWait = want.MaxAckPending, want.AckWait
	have.FilterSubject, have.FilterSubjects = "", want.FilterSubjects
	err = WithChangeTimeout(ctx, func(ctx context.Context) error {
		updated, err := b.js.UpdateConsumer(ctx, b.StreamName(c.Stream), have)
		if err == nil {
			cons = updated
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		b.log.Warn().Err(err).Str("consumer", c.Name).Msg("cannot update the consumer of an earlier version")
	}
	return cons, nil
}
