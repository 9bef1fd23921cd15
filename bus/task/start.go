package task

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
)

// startKey begins the keys of the records of starts: one record for each start, so that
// workers need not read before they write.
const startKey = "start"

// RecordStart records that a worker starts a call, and returns the record for
// ForgetStart. The two tokens name the call.
func RecordStart(ctx context.Context, b *bus.Bus, session, call string) (record string, err error) {
	record = strings.Join([]string{startKey, session, call, nuid.Next()}, ".")
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		_, err = kv.Create(ctx, record, nil, jetstream.KeyTTL(recordTTL))
	}
	if err != nil {
		return "", fmt.Errorf("record the start of call %s: %w", call, err)
	}
	return record, nil
}

// stopped ends the record of a first delivery that the stop of a worker ended.
const stopped = "stopped"

// RecordStopped records that the stop of a worker ended the first delivery of a call,
// which has no record of its start and does not count as an attempt.
func RecordStopped(ctx context.Context, b *bus.Bus, session, call string) error {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		_, err = kv.Create(ctx, strings.Join([]string{startKey, session, call, stopped}, "."), nil, jetstream.KeyTTL(recordTTL))
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("record the stop of call %s: %w", call, err)
	}
	return nil
}

// IsStopped reports whether a record of Starts is that of RecordStopped.
func IsStopped(record string) bool { return strings.HasSuffix(record, "."+stopped) }

// ForgetStart removes the record of a start that does not count as an attempt.
func ForgetStart(ctx context.Context, b *bus.Bus, record string) error {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		err = kv.Purge(ctx, record, jetstream.PurgeTTL(recordTTL))
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", record, err)
	}
	return nil
}

// Starts returns the records of the starts of a call.
func Starts(ctx context.Context, b *bus.Bus, session, call string) (records []string, err error) {
	err = eachRecord(ctx, b, strings.Join([]string{startKey, session, call, "*"}, "."), func(entry jetstream.KeyValueEntry) {
		records = append(records, entry.Key())
	})
	if err != nil {
		return nil, fmt.Errorf("count the starts of call %s: %w", call, err)
	}
	return records, nil
}
