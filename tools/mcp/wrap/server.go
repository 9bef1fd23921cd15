package wrap

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// connection is a link to one process of the server.
type connection struct {
	Link
	generation int
	ready      bool      // requests of the client may be sent
	answered   bool      // it answered a request
	heard      time.Time // when its last message came
	outbox     *outbox
	closed     chan struct{}
}

// send queues a message that is not a request of the client. It drops the message if
// the server does not read its input for long.
func (c *connection) send(m *wire.Message) {
	if !c.outbox.add(m) && !m.IsRequest() {
		m.Close()
	}
}

// write writes the queued messages to a server.
func (p *proxy) write(c *connection) {
	for {
		select {
		case <-c.outbox.filled:
		case <-c.closed:
			return
		}
		for m := c.outbox.take(); m != nil; m = c.outbox.take() {
			if !p.wanted(m) {
				continue
			}
			if err := c.Send(m); err != nil {
				c.Close() // Receive ends with the reason
				return
			}
			if !m.IsRequest() { // requests are closed when they are answered
				m.Close()
			}
		}
	}
}

// wanted reports whether a message may be written: a request may have been answered
// with an error while it was in the queue. It counts how often a request is written.
func (p *proxy) wanted(m *wire.Message) bool {
	if !m.IsRequest() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.pending[m.ID]; r != nil && r.Message == m {
		r.attempts++
		r.written = time.Now()
		return true
	}
	_, own := p.internal[m.ID]
	return own
}

// maxStarts is how many starts in a row may fail before the waiting requests fail. The
// server is then started for the next request only.
const maxStarts = 3

// serve keeps the server running until ctx ends.
func (p *proxy) serve(ctx context.Context) error {
	policy := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(20*time.Second), backoff.WithMaxElapsedTime(0))
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		answered, err := p.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrPermanent) {
			return err
		}
		p.cfg.Log.Warn().Str("server", p.cfg.Name).Str("error", tools.Excerpt(err.Error(), 1000)).Msg("MCP server ended; it is started again")
		failures++
		if answered {
			failures = 0
			if time.Since(began) > 10*time.Second {
				policy.Reset()
			}
		}
		if failures >= maxStarts {
			p.giveUp(err)
			select {
			case <-p.demand:
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(policy.NextBackOff()):
		case <-ctx.Done():
		}
	}
	return nil
}

// session starts the server and handles its messages until it ends. It reports
// whether the server answered a request.
func (p *proxy) session(ctx context.Context) (answered bool, err error) {
	link, err := p.cfg.Server(ctx)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	p.generation++
	c := &connection{Link: link, generation: p.generation, outbox: newOutbox(), closed: make(chan struct{})}
	p.server = c
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, link.Close)
	defer stop()
	p.work.Go(func() { p.write(c) })
	p.work.Go(func() {
		if err := p.prepare(ctx, c); err != nil {
			p.cfg.Log.Warn().Str("server", p.cfg.Name).Err(err).Msg("MCP server does not start")
			link.Close()
		}
	})
	err = p.fromServerLink(ctx, c)
	link.Close()
	close(c.closed)
	p.mu.Lock()
	answered = c.answered
	p.server = nil
	p.mu.Unlock()
	p.interrupted(c, err)
	return answered, err
}

// prepare brings a new process into the state of the earlier one, and then sends the
// requests that wait.
func (p *proxy) prepare(ctx context.Context, c *connection) error {
	p.mu.Lock()
	params, initialized := p.initialize, p.initialized
	var replay []*wire.Message
	if p.level != nil {
		replay = append(replay, p.level)
	}
	for _, m := range p.subscriptions {
		replay = append(replay, m)
	}
	p.mu.Unlock()
	if params != nil {
		if _, err := p.ask(ctx, c, "initialize", params); err != nil {
			return fmt.Errorf("initialize: %w", err)
		}
		if initialized {
			m, err := wire.Request("", "notifications/initialized", nil)
			if err != nil {
				return err
			}
			c.send(m)
		}
		for _, m := range replay {
			params, err := m.Bytes(m.Params, 64<<10)
			if err == nil {
				_, err = p.ask(ctx, c, m.Method, json.RawMessage(params))
			}
			if err != nil {
				p.cfg.Log.Warn().Str("server", p.cfg.Name).Str("method", m.Method).Err(err).Msg("cannot repeat a request after a restart")
			}
		}
	}
	if err := p.learnAgain(ctx, c); err != nil {
		return err
	}
	p.resume(c)
	return nil
}

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

// ask sends a request of the proxy itself and returns the result.
func (p *proxy) ask(ctx context.Context, c *connection, method string, params any) (*wire.Message, error) {
	id := strconv.Quote("stevedore-" + rand.Text())
	m, err := wire.Request(id, method, params)
	if err != nil {
		return nil, err
	}
	answer := make(chan *wire.Message, 1)
	p.mu.Lock()
	p.internal[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.internal, id)
		p.mu.Unlock()
	}()
	c.send(m)
	select {
	case response, ok := <-answer:
		switch {
		case !ok:
			return nil, errors.New("the server ended")
		case response.Error.Exists():
			text, _ := response.Bytes(response.Error, 4<<10)
			return response, &rpcError{method, string(text)}
		}
		return response, nil
	case <-time.After(p.cfg.StartTimeout):
		return nil, fmt.Errorf("the server did not answer %s within %s", method, p.cfg.StartTimeout)
	case <-c.closed:
		return nil, errors.New("the server ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rpcError is an error response of the server.
type rpcError struct{ method, text string }

func (e *rpcError) Error() string {
	return fmt.Sprintf("the server answered %s with the error %s", e.method, tools.Excerpt(e.text, 300))
}
