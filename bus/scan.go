package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Stored is a message in its stream.
type Stored struct {
	Subject  string
	Sequence uint64
	At       time.Time // when it was stored
	ID       string    // the same as Delivery.ID
	Requeued bool      // republished from an earlier message
	Order    uint64    // the same as Delivery.Order
	Body     []byte
}

const (
	// scanBatch and scanBytes limit one request.
	scanBatch = 256
	scanBytes = 4 << 20
)

// ScanDirect calls f for the messages of a stream on a subject, which may have
// wildcards, oldest first, until f returns false. It reads at most count messages and
// about size bytes, and reports whether these were all. It needs no consumer; a
// work-queue stream allows only those of the workers.
func (b *Bus) ScanDirect(ctx context.Context, stream, subject string, count, size int, f func(Stored) bool) (all bool, err error) {
	return b.scanFrom(ctx, stream, subject, time.Time{}, count, size, f)
}

// scanFrom skips messages that were stored before start.
func (b *Bus) scanFrom(ctx context.Context, stream, subject string, start time.Time, count, size int, f func(Stored) bool) (all bool, err error) {
	get := jsapi.Get{NextBySubject: subject, StartTime: start, Batch: min(count, scanBatch), MaxBytes: min(size, scanBytes)}
	for m, err := range b.api.Messages(ctx, b.StreamName(stream), get) {
		if err != nil {
			return false, fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
		}
		count, size = count-1, size-len(m.Data)
		more := f(Stored{
			Subject: m.Subject, Sequence: m.Sequence, At: m.Time, Body: m.Data,
			ID: idOf(m.Header, m.Sequence, m.Time), Requeued: m.Header.Get(idHeader) != "", Order: orderOf(m.Header, m.Sequence),
		})
		if !more || count <= 0 || size <= 0 {
			return false, nil
		}
	}
	return true, nil
}

// ScanAfter calls f for the messages of a stream on a subject that were stored after a
// sequence, in order. It reads the first few one by one, because for each batch the
// server counts all messages on the subject.
func (b *Bus) ScanAfter(ctx context.Context, stream, subject string, sequence uint64, f func(Stored)) error {
	name := b.StreamName(stream)
	fail := func(err error) error { return fmt.Errorf("scan stream %s: %w", name, err) }
	next := func(m jsapi.Message) {
		f(Stored{Subject: m.Subject, Sequence: m.Sequence, At: m.Time, Body: m.Data})
		sequence = m.Sequence
	}
	const single = 4
	for range single {
		m, err := b.api.GetMessage(ctx, name, jsapi.Get{NextBySubject: subject, Sequence: sequence + 1})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return fail(err)
		}
		next(m)
	}
	get := jsapi.Get{NextBySubject: subject, Sequence: sequence + 1, Batch: scanBatch, MaxBytes: scanBytes}
	for m, err := range b.api.Messages(ctx, name, get) {
		if err != nil {
			return fail(err)
		}
		next(m)
	}
	return nil
}

// ScanTo calls f for the messages of a stream on a subject with sequences from first
// to last, in order. It misses none, even if the replica that answers lags behind: that
// replica does not have the message last, which the caller has received.
func (b *Bus) ScanTo(ctx context.Context, stream, subject string, first, last uint64, f func(Stored)) error {
	name := b.StreamName(stream)
	// next reports whether more messages may follow.
	next := func(m jsapi.Message) bool {
		if m.Sequence <= last {
			f(Stored{Subject: m.Subject, Sequence: m.Sequence, At: m.Time, Body: m.Data})
		}
		first = m.Sequence + 1
		return first <= last
	}
	if first > last {
		return nil
	}
	get := jsapi.Get{NextBySubject: subject, Sequence: first, Batch: int(min(last-first+1, scanBatch)), MaxBytes: scanBytes}
	for m, err := range b.api.Messages(ctx, name, get) {
		if err != nil {
			return fmt.Errorf("scan stream %s: %w", name, err)
		}
		if !next(m) {
			return nil
		}
	}
	for {
		m, err := b.api.GetFromLeader(ctx, name, jsapi.Get{NextBySubject: subject, Sequence: first})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("scan stream %s: %w", name, err)
		}
		if !next(m) {
			return nil
		}
	}
}

// IsStored reports whether a stream still has a message.
func (b *Bus) IsStored(ctx context.Context, stream string, sequence uint64) (bool, error) {
	_, err := b.api.GetMessage(ctx, b.StreamName(stream), jsapi.Get{Sequence: sequence})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read stream %s: %w", b.StreamName(stream), err)
	}
	return true, nil
}
