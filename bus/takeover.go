package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxTakeOver is the largest number of sequences of a consumer that TakeOver looks at. A
// longer range waits until the leases end.
const maxTakeOver = 200_000

// TakeOver ends the leases of all messages that were delivered before, so that the server
// delivers them again immediately. It also ends the lease of a process that trimmed a
// stream. Call it before any consumer of this process starts, and only if no living process
// holds leases: the server ran in this process's predecessor. A message that another
// process holds nevertheless is delivered twice.
func (b *Bus) TakeOver(ctx context.Context) error {
	for _, name := range []string{Calls, Results, Ticks, Outbox, Dead} {
		stream, err := b.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("take over deliveries: %w", err)
		}
		consumers := stream.ListConsumers(ctx)
		for info := range consumers.Info() {
			b.takeOver(info)
		}
		if err := consumers.Err(); err != nil {
			return fmt.Errorf("take over deliveries: %w", err)
		}
	}
	for _, name := range []string{Results, Sessions} {
		if err := b.takeOverTrimming(ctx, name); err != nil {
			b.log.Warn().Err(err).Msg("a full stream waits until the lease of an earlier process ends")
		}
	}
	return b.nc.FlushTimeout(b.cfg.Timeout)
}

// takeOverTrimming ends the lease of the process that trimmed a stream. Otherwise a full
// stream would stop all work for the rest of the lease.
func (b *Bus) takeOverTrimming(ctx context.Context, stream string) error {
	record, revision, err := b.ReadTrimmed(ctx, stream)
	if err != nil || record.Holder == "" {
		return err
	}
	record.Holder = ""
	body, err := Encode(record)
	if err != nil {
		return err
	}
	kv, err := b.Bucket(ctx, TasksBucket)
	if err != nil {
		return err
	}
	if _, err := kv.Update(ctx, TrimmedKey(stream), body, revision); err != nil {
		return fmt.Errorf("end the lease of the trim record of stream %s: %w", b.StreamName(stream), err)
	}
	return nil
}

// takeOver sends a nak for each sequence that a consumer may have pending. The server
// ignores a nak for any other sequence. The subject of a nak names the stream, the consumer,
// the deliveries, both sequences, a time and the pending messages; the server uses only the
// sequences.
func (b *Bus) takeOver(info *jetstream.ConsumerInfo) {
	first, last := info.AckFloor.Stream+1, info.Delivered.Stream
	switch {
	case info.NumAckPending == 0 || last < first:
		return
	case last-first >= maxTakeOver:
		b.log.Warn().Str("consumer", info.Name).Msg("too many deliveries to take over; they wait until their leases end")
		return
	}
	for sequence := first; sequence <= last; sequence++ {
		subject := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", info.Stream, info.Name, sequence, info.Delivered.Consumer, time.Now().UnixNano())
		if err := b.nc.Publish(subject, []byte("-NAK")); err != nil {
			return // the leases end anyway
		}
	}
}
