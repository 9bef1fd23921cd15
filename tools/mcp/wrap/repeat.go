package wrap

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// resume sends the requests that wait to a process that is ready, in their order. It
// fails the calls that must not run twice.
func (p *proxy) resume(c *connection) {
	p.mu.Lock()
	if p.server != c { // it has ended already, and the next one will send them
		p.mu.Unlock()
		return
	}
	var failed, full []*request
	waiting := make([]*request, 0, len(p.pending))
	for _, r := range p.pending {
		waiting = append(waiting, r)
	}
	slices.SortFunc(waiting, func(a, b *request) int { return cmp.Compare(a.seq, b.seq) })
	c.ready = true
	for _, r := range waiting {
		if r.attempts > 0 && !p.repeatableLocked(r) {
			delete(p.pending, r.ID)
			failed = append(failed, r)
			continue
		}
		if !p.sendLocked(r) {
			full = append(full, r)
		}
	}
	p.mu.Unlock()
	for _, r := range failed {
		p.fail(r, p.crashText(r, nil))
	}
	for _, r := range full {
		p.fail(r, p.fullText())
	}
}

// maxAttempts is how often a call is sent: a call that kills the server every time must
// not kill it for ever. Other requests are sent until the server is given up.
const maxAttempts = 2

// harmless are the methods that may be repeated. A method of an extension may act.
var harmless = []string{
	"initialize", "server/discover", "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read",
	"resources/subscribe", "resources/unsubscribe", "subscriptions/listen", "prompts/list", "prompts/get", "completion/complete",
	"logging/setLevel", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel",
}

// repeatableLocked reports whether a request may be sent again after the server may
// have received it.
func (p *proxy) repeatableLocked(r *request) bool {
	switch {
	case r.cancelled:
		return false
	case r.attempts == 0: // it was not written
		return true
	case r.Method == "tools/call":
		return r.attempts < maxAttempts && p.known[r.tool].repeatable
	}
	return r.attempts <= maxStarts && !mayAct(r)
}

// mayAct reports whether a request may have an effect.
func mayAct(r *request) bool { return !slices.Contains(harmless, r.Method) }

// sendLocked queues a request. If the queue is full, it forgets the request, and the
// caller answers it.
func (p *proxy) sendLocked(r *request) bool {
	if !p.server.outbox.add(r.Message) {
		delete(p.pending, r.ID)
		return false
	}
	r.sent = true
	return true
}

func (p *proxy) fullText() string {
	return fmt.Sprintf("The MCP server %s does not read its input, and %d MiB of requests wait for it. This one was not sent; try again later.", p.cfg.Name, maxOutbox>>20)
}

// interrupted handles the requests of a process that ended.
func (p *proxy) interrupted(c *connection, cause error) {
	p.mu.Lock()
	var failed []*request
	for id, r := range p.pending {
		if !r.sent {
			continue
		}
		r.sent = false
		if !p.repeatableLocked(r) && (p.listed || r.Method != "tools/call" || r.attempts >= maxAttempts || r.cancelled) {
			delete(p.pending, id)
			failed = append(failed, r)
		} // otherwise resume decides, when the tools are known
	}
	for id, answer := range p.internal {
		close(answer)
		delete(p.internal, id)
	}
	var withdrawn []string
	for id, r := range p.fromServer {
		if r.generation == c.generation {
			withdrawn = append(withdrawn, id)
			delete(p.fromServer, id)
		}
	}
	p.mu.Unlock()
	for _, r := range failed {
		p.fail(r, p.crashText(r, cause))
	}
	for _, id := range withdrawn {
		if m, err := wire.Request("", "notifications/cancelled", map[string]any{"requestId": json.RawMessage(id), "reason": "the server ended"}); err == nil {
			p.toClient(m)
		}
	}
}

func (p *proxy) crashText(r *request, cause error) string {
	reason := ""
	if cause != nil {
		reason = " (" + tools.Excerpt(cause.Error(), 500) + ")"
	}
	switch {
	case !mayAct(r):
		return fmt.Sprintf("The MCP server %s ended while it handled %s%s. It is started again; send the request again.", p.cfg.Name, r.Method, reason)
	case r.Method != "tools/call":
		return fmt.Sprintf("The MCP server %s ended while it handled %s%s. It may have acted. It is started again; check the effect before you send the request again.", p.cfg.Name, r.Method, reason)
	case r.attempts >= maxAttempts:
		return fmt.Sprintf("The MCP server %s ended %d times while it ran %s%s. It is started again, but this call seems to be the cause; do not repeat it unchanged.", p.cfg.Name, r.attempts, r.tool, reason)
	}
	return fmt.Sprintf("The MCP server %s ended while it ran %s%s. The tool may have acted and was not run again, because its annotations do not allow a repetition. The server is started again; check the effect before you repeat the call.", p.cfg.Name, r.tool, reason)
}

// giveUp fails all requests, because the server does not start.
func (p *proxy) giveUp(cause error) {
	p.mu.Lock()
	waiting := make([]*request, 0, len(p.pending))
	for id, r := range p.pending {
		delete(p.pending, id)
		waiting = append(waiting, r)
	}
	select {
	case <-p.demand: // of one of these requests
	default:
	}
	p.mu.Unlock()
	for _, r := range waiting {
		p.fail(r, fmt.Sprintf("The MCP server %s does not start: %s", p.cfg.Name, tools.Excerpt(cause.Error(), 600)))
	}
}
