package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// leaseTime is how long one keeper may trim a stream without renewing its lease.
const leaseTime = time.Minute

// lease is the right to trim a stream. It is stored in the trim record, beside the time
// before which records were removed.
type lease struct {
	bus      *bus.Bus
	stream   string
	id       string // of the keeper
	revision uint64
	record   Trimmed
}

// acquire returns nil if another keeper trims the stream.
func (k *Keeper) acquire(ctx context.Context, stream string) (*lease, error) {
	record, revision, err := ReadTrimmed(ctx, k.bus, stream)
	if err != nil {
		return nil, err
	}
	if record.Holder != "" && record.Holder != k.id && time.Now().Before(record.Until) && time.Until(record.Until) <= leaseTime {
		return nil, nil
	}
	l := &lease{k.bus, stream, k.id, revision, record}
	if err := l.store(ctx, l.id); err != nil {
		if errors.Is(err, errLost) {
			return nil, nil
		}
		return nil, err
	}
	return l, nil
}

// errLost means that another keeper has the lease.
var errLost = errors.New("another worker trims the stream")

// removing stores, before records are removed, that all of them are older than before.
func (l *lease) removing(ctx context.Context, before time.Time) error {
	if before.After(l.record.Before) {
		l.record.Before = before.UTC()
	}
	return l.store(ctx, l.id)
}

func (l *lease) release(ctx context.Context) error {
	if err := l.store(ctx, ""); !errors.Is(err, errLost) {
		return err
	}
	return nil
}

func (l *lease) store(ctx context.Context, holder string) error {
	l.record.Holder, l.record.Until = holder, time.Now().Add(leaseTime).UTC()
	body, err := bus.Encode(l.record)
	if err != nil {
		return err
	}
	revision, err := l.bus.PutEntry(ctx, TrimmedKey(l.stream), body, l.revision, 0)
	if errors.Is(err, bus.ErrConflict) {
		return errLost
	}
	if err != nil {
		return fmt.Errorf("store the trim record of stream %s: %w", l.stream, err)
	}
	l.revision = revision
	return nil
}

// EndLease ends the lease of the process that trimmed a stream. Otherwise a full stream would
// stop all work for the rest of the lease. Call it only if that process has ended.
func EndLease(ctx context.Context, b *bus.Bus, stream string) error {
	record, revision, err := ReadTrimmed(ctx, b, stream)
	if err != nil || record.Holder == "" {
		return err
	}
	l := lease{bus: b, stream: stream, revision: revision, record: record}
	return l.release(ctx)
}
