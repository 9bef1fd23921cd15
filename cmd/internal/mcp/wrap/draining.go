package wrap

import (
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// Draining returns a link that reports the end of the client's side only after each request
// that came before it was answered or cancelled, and at the latest after limit. The SDK
// cancels all requests when a link ends; a client that closes its side after its last request
// would get no answers. ended is called when the client's side ends.
func Draining(link Link, limit time.Duration, ended func()) Link {
	d := &draining{Link: link, limit: limit, ended: ended, open: map[string]bool{}, changed: make(chan struct{}, 1), closed: make(chan struct{})}
	d.end = sync.OnceFunc(func() { close(d.closed) })
	return d
}

type draining struct {
	Link
	limit   time.Duration
	ended   func()
	changed chan struct{} // has an element if open changed
	closed  chan struct{}
	end     func()

	mu   sync.Mutex
	open map[string]bool // requests without an answer, by id
}

// Receive implements Link.
func (d *draining) Receive() (*wire.Message, error) {
	m, err := d.Link.Receive()
	switch {
	case err != nil && !wire.IsOfOneMessage(err):
		d.ended()
		d.wait()
	case err != nil:
	case m.IsRequest() && m.Method != wire.MethodListen:
		d.set(m.ID, true)
	case m.Method == "notifications/cancelled":
		d.set(wire.IDOf(wire.Get(m.Params, "requestId")), false)
	}
	return m, err
}

// Send implements Link.
func (d *draining) Send(m *wire.Message) error {
	err := d.Link.Send(m)
	if m.IsResponse() {
		d.set(m.ID, false)
	}
	return err
}

// Close implements Link.
func (d *draining) Close() {
	d.end()
	d.Link.Close()
}

func (d *draining) set(id string, open bool) {
	d.mu.Lock()
	if open {
		d.open[id] = true
	} else {
		delete(d.open, id)
	}
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *draining) wait() {
	timeout := time.NewTimer(d.limit)
	defer timeout.Stop()
	for {
		d.mu.Lock()
		open := len(d.open)
		d.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-d.changed:
		case <-d.closed:
			return
		case <-timeout.C:
			return
		}
	}
}
