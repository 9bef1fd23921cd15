package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// Trimmed is the record of what workers removed from a stream, in the tasks bucket.
type Trimmed struct {
	// Before is a time: messages that were stored before may be missing. It is stored
	// before they are removed.
	Before time.Time `json:"before,omitzero"`
	// Holder is the worker that may remove messages, until the time Until.
	Holder string    `json:"holder,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// TrimmedKey is the key of the record of a stream.
func TrimmedKey(stream string) string { return "trim." + stream }

// ReadTrimmed returns the record of a stream and its revision, which is 0 if there is
// none.
func ReadTrimmed(ctx context.Context, b *bus.Bus, stream string) (t Trimmed, revision uint64, err error) {
	m, err := b.Entry(ctx, TrimmedKey(stream))
	if err == nil && len(m.Data) > 0 {
		err = json.Unmarshal(m.Data, &t)
	}
	if err != nil {
		return Trimmed{}, 0, fmt.Errorf("read the trim record of stream %s: %w", b.StreamName(stream), err)
	}
	return t, m.Sequence, nil
}

// Drops finds out what a stream dropped. The zero value is ready to use.
type Drops struct {
	mu   sync.Mutex
	last lastOfStream
}

// lastOfStream is the last message of a stream at some time.
type lastOfStream struct {
	created  time.Time // of the stream
	sequence uint64
	at       time.Time
}

// CompleteSince returns the time since which the results stream has dropped no message. One
// that was stored before may be missing, because of its age, a purge or a lack of space. It
// counts what workers trimmed. Other messages after the oldest one that were deleted one by
// one do not count.
func (d *Drops) CompleteSince(ctx context.Context, b *bus.Bus) (time.Time, error) {
	s, err := b.Stream(ctx, bus.Results)
	if err != nil {
		return time.Time{}, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("stream %s: %w", b.StreamName(bus.Results), err)
	}
	// Workers that trim the stream keep some of the messages before the ones they remove.
	record, _, err := ReadTrimmed(ctx, b, bus.Results)
	if err != nil {
		return time.Time{}, err
	}
	since := info.Created
	for _, dropped := range []time.Time{d.newest(info), record.Before} {
		if dropped.After(since) {
			since = dropped
		}
	}
	return since, nil
}

// newest returns a time before which the newest dropped message was stored. The stream tells
// only the time of its oldest message, which may be much later: a retry of a dead letter
// deletes the oldest ones. So Drops remembers the last message of an earlier call: if all
// dropped messages are not newer, its time is a better answer.
func (d *Drops) newest(info *jetstream.StreamInfo) time.Time {
	s := info.State
	if s.FirstSeq <= 1 {
		return time.Time{}
	}
	last := lastOfStream{info.Created, s.LastSeq, s.LastTime}
	if last.at.IsZero() { // a server that restarts does not know it of an empty stream
		last.at = info.TimeStamp
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last.created.Equal(info.Created) && s.FirstSeq <= d.last.sequence+1 {
		last = d.last
	} else {
		d.last = last
	}
	if s.Msgs > 0 && s.FirstTime.Before(last.at) {
		return s.FirstTime
	}
	return last.at
}
