package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	// scanPatience is how long the server may take for the next message.
	scanPatience = 5 * time.Second
)

// Scan calls f for the messages of a stream on a subject, which may have
// wildcards, oldest first, until f returns false, at most count of them and
// about size bytes. It reports whether that were all. It needs no consumer,
// which a stream that is a work queue has for its workers only.
func (b *Bus) Scan(ctx context.Context, stream, subject string, count, size int, f func(Stored) bool) (all bool, err error) {
	return b.scanFrom(ctx, stream, subject, time.Time{}, count, size, f)
}

// scanFrom leaves out what is older than start.
func (b *Bus) scanFrom(ctx context.Context, stream, subject string, start time.Time, count, size int, f func(Stored) bool) (all bool, err error) {
	inbox := b.nc.NewInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return false, fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
	}
	defer func() { _ = sub.Unsubscribe() }() // gone with the connection otherwise
	for next := uint64(1); count > 0 && size > 0; {
		get := map[string]any{"seq": next, "next_by_subj": subject, "batch": min(count, scanBatch), "max_bytes": min(size, scanBytes)}
		if next == 1 && !start.IsZero() {
			delete(get, "seq")
			get["start_time"] = start
		}
		request, err := Encode(get)
		if err != nil {
			return false, err
		}
		if err := b.nc.PublishRequest(b.apiPrefix()+".DIRECT.GET."+b.StreamName(stream), inbox, request); err != nil {
			return false, fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
		}
		for {
			msg, err := nextOf(ctx, sub)
			if err != nil {
				return false, fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
			}
			if lastValue(msg.Header, jetstream.StreamHeader) == "" { // no message, but a word of the server's
				switch status := msg.Header.Get("Status"); status {
				case "404":
					return true, nil
				case "204":
				default:
					return false, fmt.Errorf("scan stream %s: %s %s", b.StreamName(stream), status, msg.Header.Get("Description"))
				}
				break // the batch is over
			}
			m, err := storedOf(msg)
			if err != nil {
				return false, fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
			}
			next, count, size = m.Sequence+1, count-1, size-len(msg.Data)
			if !f(m) {
				return false, nil
			}
		}
	}
	return false, nil
}

func nextOf(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, scanPatience)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

func storedOf(msg *nats.Msg) (Stored, error) {
	m := Stored{Subject: lastValue(msg.Header, jetstream.SubjectHeader), Body: msg.Data}
	var errSeq, errTime error
	m.Sequence, errSeq = strconv.ParseUint(lastValue(msg.Header, jetstream.SequenceHeader), 10, 64)
	m.At, errTime = time.Parse(time.RFC3339Nano, lastValue(msg.Header, jetstream.TimeStampHeaer))
	m.ID = idOf(msg.Header, m.Sequence, m.At)
	m.Requeued = msg.Header.Get(idHeader) != ""
	return m, errors.Join(errSeq, errTime)
}

// lastValue is the server's word, which it writes behind what a client may have
// put under the same name.
func lastValue(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
