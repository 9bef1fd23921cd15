package object

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// window limits how many chunks the uploads of a store have in flight together. The
// server refuses chunks if more than 128 MiB of a stream wait to be stored. On a slow
// connection, most chunks in flight are not at the server yet, so the limit grows
// with the round trip.
type window struct {
	roundTrip time.Duration // to the server of the connection, when the store was opened
	uploads   atomic.Int64  // running now
}

const (
	minInFlight = 64  // 8 MiB
	maxInFlight = 512 // 64 MiB
	// sendRate is how many chunks per second a connection should carry: 375 MiB.
	sendRate = 3000
)

// measure measures the round trip to the server itself. The response time of a
// stream depends on its load.
func (w *window) measure(ctx context.Context, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	start := time.Now()
	if err := nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("measure the round trip: %w", err)
	}
	w.roundTrip = time.Since(start)
	return nil
}

const pingTimeout = 5 * time.Second

// chunks returns how many chunks one of the running uploads may have in flight.
func (w *window) chunks() int {
	total := min(minInFlight+int(sendRate*w.roundTrip.Seconds()), maxInFlight)
	return max(total/int(max(w.uploads.Load(), 1)), 1)
}
