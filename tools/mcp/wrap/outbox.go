package wrap

import (
	"sync"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// outbox is the queue of the messages to a server. To add a message never blocks: a
// server may read nothing while it writes, and the proxy must go on to read then.
type outbox struct {
	mu     sync.Mutex
	queue  []*wire.Message
	bytes  int64
	filled chan struct{} // has an element if the queue is not empty
}

// maxOutbox is how much an outbox contains, in bytes in memory. Each message counts as
// at least 1 KiB.
const maxOutbox = 64 << 20

func newOutbox() *outbox { return &outbox{filled: make(chan struct{}, 1)} }

func outboxSize(m *wire.Message) int64 {
	if m.InMemory() {
		return max(m.Size(), 1<<10)
	}
	return 1 << 10
}

// add adds a message, and reports whether there was room for it.
func (o *outbox) add(m *wire.Message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if size := outboxSize(m); len(o.queue) == 0 || o.bytes+size <= maxOutbox {
		o.queue = append(o.queue, m)
		o.bytes += size
		select {
		case o.filled <- struct{}{}:
		default:
		}
		return true
	}
	return false
}

// take returns the next message; nil if there is none.
func (o *outbox) take() *wire.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil
	}
	m := o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.bytes -= outboxSize(m)
	return m
}
