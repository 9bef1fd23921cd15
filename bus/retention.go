package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// CompleteSince returns the time since which a stream has dropped no message. One that
// was stored before may be missing, because of its age, a purge or a lack of space.
// It counts what workers trimmed. Other messages after the oldest one that were deleted
// one by one do not count.
func (b *Bus) CompleteSince(ctx context.Context, stream string) (time.Time, error) {
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return time.Time{}, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("stream %s: %w", b.StreamName(stream), err)
	}
	// Workers that trim the stream keep some of the messages before the ones they remove.
	trimmed, _, err := b.ReadTrimmed(ctx, stream)
	if err != nil {
		return time.Time{}, err
	}
	since := info.Created
	for _, dropped := range []time.Time{b.newestDropped(stream, info), trimmed.Before} {
		if dropped.After(since) {
			since = dropped
		}
	}
	return since, nil
}

// lastOfStream is the last message of a stream at some time.
type lastOfStream struct {
	created  time.Time // of the stream
	sequence uint64
	at       time.Time
}

// newestDropped returns a time before which the newest dropped message was stored. The
// stream tells only the time of its oldest message, which may be much later. So the bus
// remembers the last message of an earlier call: if all dropped messages are not newer,
// its time is a better answer.
func (b *Bus) newestDropped(stream string, info *jetstream.StreamInfo) time.Time {
	s := info.State
	if s.FirstSeq <= 1 {
		return time.Time{}
	}
	last := lastOfStream{info.Created, s.LastSeq, s.LastTime}
	if last.at.IsZero() { // a server that restarts does not know it of an empty stream
		last.at = info.TimeStamp
	}
	v, _ := b.lastMessages.Load(stream)
	if known, ok := v.(lastOfStream); ok && known.created.Equal(info.Created) && s.FirstSeq <= known.sequence+1 {
		last = known
	} else {
		b.lastMessages.Store(stream, last)
	}
	if s.Msgs > 0 && s.FirstTime.Before(last.at) {
		return s.FirstTime
	}
	return last.at
}
