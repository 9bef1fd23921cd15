package object

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// queueTime is how long the chunks of an upload may queue at the server: so
	// what all programs together have there stays below the 128 MiB at which a
	// stream refuses more. What is on a long link queues nowhere.
	queueTime = 50 * time.Millisecond
	// minInFlight is how many chunks of an upload may be on their way although
	// they queue, as long as those of all uploads of the store are not more than
	// minTogether.
	minInFlight, minTogether = 8, 64
	// maxInFlight is for all uploads of a store: 64 MiB.
	maxInFlight = 512
	// firstRate is how many chunks a second a link is trusted with before any was
	// acknowledged: 375 MB.
	firstRate = 3000
	// detour is how much longer than to the server of the connection the way to
	// the stream's leader may be. A longer delay is a queue.
	detour = 250 * time.Millisecond
)

// link is what a store knows of the way to its stream.
type link struct {
	delay   time.Duration // a round trip to the server, when the store was opened
	seq     atomic.Uint64 // the last sequence seen in the stream
	uploads atomic.Int64  // under way
}

// measure asks the server itself: how long a stream takes to answer says more
// about what others do there.
func (l *link) measure(ctx context.Context, a api, stream jetstream.Stream) error {
	l.saw(stream.CachedInfo().State.LastSeq)
	ctx, cancel := a.within(ctx)
	defer cancel()
	start := time.Now()
	if err := a.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("measure the delay: %w", err)
	}
	l.delay = time.Since(start)
	return nil
}

// saw notes a sequence that was taken.
func (l *link) saw(seq uint64) {
	for {
		old := l.seq.Load()
		if seq <= old || l.seq.CompareAndSwap(old, seq) {
			return
		}
	}
}

// sentChunk is a chunk on its way.
type sentChunk struct {
	number int // of its message
	open   int // chunks of the upload that were on their way with it
	at     time.Time
}

// window bounds how many chunks of an upload are on their way. It grows with each
// that did not queue, and else is as many as the server stores in the time that
// the way and the queue may take.
type window struct {
	link  *link
	more  int           // than the least
	delay time.Duration // the least that a chunk took
}

func (l *link) newWindow() window {
	w := window{link: l, delay: l.delay + detour}
	w.more = int(min(firstRate*l.delay.Seconds(), maxInFlight)) / w.sharers()
	return w
}

// sharers is how many uploads are under way, this one included.
func (w *window) sharers() int { return int(max(w.link.uploads.Load(), 1)) }

// least is how many chunks may be on their way although they queue.
func (w *window) least() int { return max(min(minInFlight, minTogether/w.sharers()), 1) }

// chunks is how many may be on their way now.
func (w *window) chunks() int {
	return max(min(w.least()+w.more, maxInFlight/w.sharers()), 1)
}

// stored adjusts the window to a chunk that was acknowledged.
func (w *window) stored(c sentChunk) {
	took := time.Since(c.at)
	w.delay = min(w.delay, took)
	if limit := w.delay + queueTime; took <= limit {
		w.more = min(w.more+1, maxInFlight)
	} else {
		w.more = max(int(int64(c.open)*int64(limit)/int64(took))-w.least(), 0)
	}
}
