package consume

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// leases extends the leases of the messages that a consumer handles, so that the
// server does not redeliver them. One ticker extends all of them.
type leases struct {
	nc       *nats.Conn
	interval time.Duration

	mu   sync.Mutex
	held map[*nats.Msg]struct{}
}

func newLeases(nc *nats.Conn, interval time.Duration) *leases {
	return &leases{nc: nc, interval: interval, held: make(map[*nats.Msg]struct{})}
}

func (l *leases) add(msg *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[msg] = struct{}{}
}

func (l *leases) remove(msg *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, msg)
}

// keep extends all leases at each interval until ctx ends.
func (l *leases) keep(ctx context.Context) {
	ticker := time.NewTicker(l.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, msg := range l.snapshot() {
				l.extend(msg)
			}
		}
	}
}

// extend extends a lease that is still held. It sends under the lock, so that no
// extension follows a reply that is sent after remove.
func (l *leases) extend(msg *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[msg]; held {
		_ = respond(l.nc, msg, ackProgress) // the next extension makes up for a lost one
	}
}

func (l *leases) snapshot() []*nats.Msg {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.held))
}
