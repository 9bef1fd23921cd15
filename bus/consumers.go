package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/tools/retry"
)

const (
	// changeTimeout is how long the server may take to create or change a stream or
	// consumer. A cluster answers after the replicas have elected a leader. The first vote
	// takes less than a second. If it fails, as it does on busy machines, the next one
	// begins 4 to 9 s later.
	changeTimeout = 30 * time.Second
	// askTimeout is how long WithChangeTimeout waits before it asks again. The server drops an
	// answer if it does not know yet where the client is: the routes of a cluster that starts
	// do not all exist, while two of three servers elect a leader. It drops a question if the
	// stream has no leader.
	askTimeout = 10 * time.Second
)

// WithChangeTimeout calls f, which looks up, creates or changes a stream or consumer, with a
// context that gives the server enough time. It calls f again if no answer comes, so the same
// change twice must do no harm.
func WithChangeTimeout(ctx context.Context, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		once, stop := context.WithTimeout(limited, askTimeout)
		err := f(once)
		stop()
		switch {
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return err
		case limited.Err() != nil:
			return fmt.Errorf("the server did not answer within %s; are most servers of the cluster up? %w", changeTimeout, err)
		}
	}
}

// UntilAnswered calls f, which starts something at the server. If the server cannot do that
// now, because its cluster has no leader or its disk is full, it calls f again until ctx ends.
func UntilAnswered(ctx context.Context, b *Bus, failure string, f func() error) error {
	final := func(err error) bool {
		return isRejected(err) || IsClosed(err) || errors.Is(err, jetstream.ErrBucketNotFound)
	}
	return retry.Do(ctx, retry.Pauses(100*time.Millisecond, 5*time.Second, 0), final, retry.Warn(b.log, failure), f)
}

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
