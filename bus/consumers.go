package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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

// againKey is the key in the metadata of a consumer that was made in the place of one that somebody deleted.
const againKey = "stevedore.again"

// passedKey is the key in the metadata of a consumer that passed messages, also if somebody has taken back why.
const passedKey = "stevedore.passed"

// MarkPassed notes in a consumer that it passes messages, until a process that starts to consume replaces it.
func (b *Bus) MarkPassed(ctx context.Context, have *jetstream.ConsumerInfo) error {
	config := have.Config
	if config.Metadata[passedKey] != "" {
		return nil
	}
	config.FilterSubject, config.FilterSubjects = "", filterOf(config)
	config.Metadata = map[string]string{passedKey: "yes"}
	maps.Copy(config.Metadata, have.Config.Metadata)
	_, err := b.js.UpdateConsumer(ctx, have.Stream, config)
	return err
}

// DeliveredBefore is the time before which the messages of a consumer were stored that an earlier one may have delivered,
// so that a process may handle them; zero if there was none.
func DeliveredBefore(info *jetstream.ConsumerInfo) (t time.Time) {
	if info.Config.Metadata[againKey] != "" {
		t = info.Created
	}
	return t
}

// DeliversAll reports whether the consumer, as it exists, delivers what c does, as much of it at once, whole and until it
// is settled.
func (c Consumer) DeliversAll(have jetstream.ConsumerConfig) bool {
	return slices.Equal(filterOf(have), c.Filter) && !c.Passes(have) && !have.HeadersOnly && have.MaxAckPending == c.maxPending()
}

// Passes reports whether the server takes for settled what the consumer, as it exists, does not deliver until it is settled, or
// has done so (MarkPassed). It then delivers that only to another consumer.
func (c Consumer) Passes(have jetstream.ConsumerConfig) bool {
	return have.Metadata[passedKey] != "" || have.MaxDeliver > 0 || have.AckPolicy != jetstream.AckExplicitPolicy || len(lacks(filterOf(have), c.Filter)) > 0 ||
		c.Trim != "" && have.DeliverPolicy != jetstream.DeliverAllPolicy
}

func filterOf(c jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}

// Consumer returns the durable consumer, and creates it if it does not exist, with its stream if
// that was never used. It updates one that an earlier version created with another MaxPending,
// Lease or Filter, or that somebody has changed so that it loses messages. A process without the
// permission to do that works with the consumer as it is.
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
	if c.MaxPending == 0 && have.MaxDeliver <= 0 { // never shorter: a process that runs extends its leases as often as the present one needs
		want.AckWait = max(have.AckWait, want.AckWait)
	}
	if have.AckWait == want.AckWait && c.DeliversAll(have) {
		return cons, nil
	}
	err = WithChangeTimeout(ctx, func(ctx context.Context) error {
		changed, err := b.changeConsumer(ctx, c, cons, want)
		if err == nil {
			cons = changed
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		b.log.Warn().Err(err).Str("consumer", c.Name).Msg("cannot update the consumer")
	}
	return cons, nil
}

// changeConsumer gives a consumer the settings that it wants. One that passed messages is replaced. In a stream that keeps settled
// messages, the new one begins after them. A new one delivers again what processes handle now, so one that only lacks subjects on
// which nothing is stored, as after an upgrade, is updated.
func (b *Bus) changeConsumer(ctx context.Context, c Consumer, cons jetstream.Consumer, want jetstream.ConsumerConfig) (_ jetstream.Consumer, err error) {
	info := cons.CachedInfo()
	have := info.Config
	missing := lacks(filterOf(have), c.Filter)
	have.MaxAckPending, have.AckWait, have.HeadersOnly = want.MaxAckPending, want.AckWait, want.HeadersOnly
	have.FilterSubject, have.FilterSubjects = "", want.FilterSubjects
	if !c.Passes(have) && !b.mayStore(ctx, c.Stream, missing) {
		if cons, err = b.js.UpdateConsumer(ctx, info.Stream, have); err != nil || !b.mayStore(ctx, c.Stream, missing) { // since then
			return cons, err
		}
	}
	if err := b.js.DeleteConsumer(ctx, info.Stream, info.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	want.Metadata = map[string]string{againKey: "yes"}
	if c.Trim == "" && b.StreamOf(b.cfg, info.Stream).Retention != jetstream.WorkQueuePolicy {
		want.DeliverPolicy, want.OptStartSeq = jetstream.DeliverByStartSequencePolicy, info.AckFloor.Stream+1
	}
	return b.js.CreateConsumer(ctx, info.Stream, want)
}

// mayStore reports whether a stream stores a message on one of the subjects, and true if it cannot find out.
func (b *Bus) mayStore(ctx context.Context, stream string, subjects []string) bool {
	return slices.ContainsFunc(subjects, func(subject string) bool {
		m, err := b.First(ctx, stream, subject, 0)
		return err != nil || m.Sequence > 0
	})
}
