package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// leases keeps the messages of a consumer from being delivered to somebody else
// while they are handled here. One ticker serves all.
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

// extend extends a lease that is still held. It sends under the lock, so that what
// is sent after a removal stands behind every extension.
func (l *leases) extend(msg *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[msg]; held {
		_ = respond(l.nc, msg, ackProgress) // a lost one is made up for by the next
	}
}

func (l *leases) snapshot() []*nats.Msg {
	l.mu.Lock()
	defer l.mu.Unlock()
	msgs := make([]*nats.Msg, 0, len(l.held))
	for msg := range l.held {
		msgs = append(msgs, msg)
	}
	return msgs
}
