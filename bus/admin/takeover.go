package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/retention"
)

// maxTakeOver is the largest number of sequences of a consumer that TakeOver looks at. A
// longer range waits until the leases end.
const maxTakeOver = 200_000

// TakeOver ends the leases of all messages that were delivered before, so that the server
// delivers them again immediately. It also ends the lease of a process that trimmed a
// stream. Call it before any consumer of this process starts, and only if the server ran in this
// process's predecessor. If a worker of another process may hold leases, TakeOver does nothing. A
// message that another process holds nevertheless is delivered twice.
func TakeOver(ctx context.Context, b *bus.Bus, log zerolog.Logger) error {
	if others, err := OthersAnnounced(ctx, b); others || err != nil {
		return err
	}
	for _, name := range []string{bus.Calls, bus.Results, bus.Ticks, bus.Outbox, bus.Dead} {
		stream, err := b.UsedStream(ctx, name)
		if stream == nil && err == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("take over deliveries: %w", err)
		}
		consumers := stream.ListConsumers(ctx)
		for info := range consumers.Info() {
			takeOver(b, log, info)
		}
		if err := consumers.Err(); err != nil {
			return fmt.Errorf("take over deliveries: %w", err)
		}
	}
	for _, name := range []string{bus.Results, bus.Sessions} {
		if err := retention.EndLease(ctx, b, name); err != nil {
			log.Warn().Err(err).Msg("a full stream waits until the lease of an earlier process ends")
		}
	}
	return b.Conn().FlushTimeout(b.Config().Timeout)
}

// takeOver sends a nak for each sequence that a consumer may have pending. The server
// ignores a nak for any other sequence. The subject of a nak names the stream, the consumer,
// the deliveries, both sequences, a time and the pending messages; the server uses only the
// sequences.
func takeOver(b *bus.Bus, log zerolog.Logger, info *jetstream.ConsumerInfo) {
	first, last := info.AckFloor.Stream+1, info.Delivered.Stream
	switch {
	case info.NumAckPending == 0 || last < first:
		return
	case last-first >= maxTakeOver:
		log.Warn().Str("consumer", info.Name).Msg("too many deliveries to take over; they wait until their leases end")
		return
	}
	for sequence := first; sequence <= last; sequence++ {
		subject := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", info.Stream, info.Name, sequence, info.Delivered.Consumer, time.Now().UnixNano())
		if err := b.Conn().Publish(subject, []byte("-NAK")); err != nil {
			return // the leases end anyway
		}
	}
}
