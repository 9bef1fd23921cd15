package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// expire answers the requests to which the server does not respond.
func (p *proxy) expire(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(p.cfg.CallTimeout/4, time.Second)):
		}
		p.mu.Lock()
		var expired []*request
		for id, r := range p.pending {
			if time.Now().After(r.expires) {
				delete(p.pending, id)
				expired = append(expired, r)
				if r.sent && !r.cancelled && p.server != nil {
					if m, err := wire.Request("", "notifications/cancelled", map[string]any{"requestId": json.RawMessage(id), "reason": "no response in time"}); err == nil {
						p.server.send(m)
					}
				}
			}
		}
		silent := p.server
		if !slices.ContainsFunc(expired, func(r *request) bool { return silent != nil && r.sent && r.written.After(silent.heard) }) {
			silent = nil
		}
		if silent != nil {
			p.startLocked(func() { p.probe(ctx, silent) })
		}
		p.mu.Unlock()
		for _, r := range expired {
			p.fail(r, p.expiredText(r))
		}
	}
}

func (p *proxy) expiredText(r *request) string {
	switch {
	case r.attempts == 0:
		return fmt.Sprintf("The MCP server %s was not ready within %s. The request was not sent.", p.cfg.Name, p.cfg.CallTimeout)
	case !mayAct(r):
		return fmt.Sprintf("The MCP server %s did not respond to %s within %s, and the request was cancelled.", p.cfg.Name, r.Method, p.cfg.CallTimeout)
	}
	return fmt.Sprintf("The MCP server %s did not respond within %s, and the request was cancelled. It may have acted: check before you repeat it.", p.cfg.Name, p.cfg.CallTimeout)
}

// probeTimeout is how long a server that has been silent since a request expired may
// take to answer a ping.
const probeTimeout = 10 * time.Second

// probe ends a server that hangs. It is then started again.
func (p *proxy) probe(ctx context.Context, c *connection) {
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, p.cfg.CallTimeout))
	defer cancel()
	_, err := p.ask(ctx, c, "ping", nil)
	if _, answered := errors.AsType[*rpcError](err); err == nil || answered || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	p.cfg.Log.Warn().Str("server", p.cfg.Name).Msg("MCP server hangs; it is ended")
	c.Close()
}
