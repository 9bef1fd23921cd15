package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Stored is a message where it stands in its stream.
type Stored struct {
	Subject  string
	Sequence uint64
	At       time.Time // when it was stored
	ID       string    // of a delivery of it; see Delivery
	Requeued bool      // it was made from one that was there before
	Body     []byte
}

const (
	// scanBatch and scanBytes bound what the server sends at once.
	scanBatch = 256
	scanBytes = 4 << 20
)

// Scan calls f for the messages of a stream on a subject, which may have
// wildcards, oldest first, until f returns false, at most count of them and
// about size bytes. It reports whether that were all. It needs no consumer,
// which a stream that is a work queue has for its workers only.
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
			ID: idOf(m.Header, m.Sequence, m.Time), Requeued: m.Header.Get(idHeader) != "",
		})
		if !more || count <= 0 || size <= 0 {
			return false, nil
		}
	}
	return true, nil
}
