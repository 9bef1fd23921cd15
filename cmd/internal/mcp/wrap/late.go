package wrap

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// relistTime is how long the first reference waits until the client has listed the tools
// again. A client that is slower gets it anyway.
const relistTime = time.Second

// offersReading reports whether the client's list of tools has the reading tools. Their
// definitions are part of every request to the model, so a host that follows changes of the
// list gets them when the first result is stored.
func (p *proxy) offersReading() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads() == "" && (!p.lateLocked() || p.relisted != nil)
}

func (p *proxy) lateLocked() bool {
	h := p.hosted.Load()
	return h != nil && h.host.Late && p.cfg.LateTools && p.version < wire.Stateless
}

// offerReading tells the client, before the first reference, that there are reading tools
// now, and waits until it has listed them.
func (p *proxy) offerReading(ctx context.Context) {
	p.mu.Lock()
	if !p.lateLocked() {
		p.mu.Unlock()
		return
	}
	first := p.relisted == nil
	if first {
		p.relisted = make(chan struct{})
	}
	relisted := p.relisted
	p.mu.Unlock()
	if first {
		p.toClient(wire.Request("", "notifications/tools/list_changed", nil))
	}
	select {
	case <-relisted:
	case <-time.After(relistTime):
	case <-ctx.Done():
	}
}

// noteListed notes that the client got a list with the reading tools, if r asked for one.
func (p *proxy) noteListed(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != "tools/list" || p.relisted == nil {
		return
	}
	select {
	case <-p.relisted:
	default:
		close(p.relisted)
	}
}
