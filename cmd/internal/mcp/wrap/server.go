package wrap

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// connection is a link to one process of the server.
type connection struct {
	Link
	generation int
	ready      bool      // requests of the client may be sent
	told       bool      // it got notifications/initialized before it was ready
	answered   bool      // it answered a request
	heard      time.Time // when its last message came
	queue      chan *wire.Message
	queued     atomic.Int64 // bytes in the queue
	closed     chan struct{}
}

// The queue of the messages to a server: to add one never blocks, because a server may
// read nothing while it writes, and the proxy must go on to read then.
const (
	maxQueue      = 64 << 20 // bytes
	maxQueueCount = 1 << 16
)

// send queues a message, and reports whether there was room for it.
func (c *connection) send(m *wire.Message) bool {
	if queued := c.queued.Load(); queued > 0 && queued+m.Size() > maxQueue {
		return false
	}
	select {
	case c.queue <- m:
		c.queued.Add(m.Size())
		return true
	default:
		return false
	}
}

// queueLocked queues a request, or answers it if the queue is full.
func (p *proxy) queueLocked(r *request) {
	if r.queued = p.server.send(r.Message); !r.queued {
		p.failLocked(r, fmt.Sprintf("The MCP server %s does not read its input, and %d MiB of requests wait for it. This one was not "+
			"sent; try again later.", p.cfg.Name, maxQueue>>20))
	}
}

// write writes the queued messages to a server.
func (p *proxy) write(c *connection) {
	for {
		select {
		case m := <-c.queue:
			c.queued.Add(-m.Size())
			if !p.wanted(m) {
				continue
			}
			if err := c.Send(m); err != nil {
				c.Close() // Receive ends with the reason
				return
			}
		case <-c.closed:
			return
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
	policy := retry.Pauses(100*time.Millisecond, 20*time.Second, 0)
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
		_ = tools.Sleep(ctx, policy.NextBackOff())
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
	c := &connection{Link: link, generation: p.generation, queue: make(chan *wire.Message, maxQueueCount), closed: make(chan struct{})}
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
	err = p.receive(ctx, c)
	link.Close()
	close(c.closed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = nil
	p.interruptedLocked(c, err)
	return c.answered, err
}

// prepare brings a new process into the state of the earlier one, and then sends the
// requests that wait.
func (p *proxy) prepare(ctx context.Context, c *connection) error {
	p.mu.Lock()
	params, replay := p.initialize, slices.Collect(maps.Values(p.replay))
	p.mu.Unlock()
	if params != nil {
		if _, err := p.ask(ctx, c, "initialize", params); err != nil {
			return fmt.Errorf("initialize: %w", err)
		}
		p.mu.Lock()
		p.tellInitializedLocked(c)
		p.mu.Unlock()
		for _, m := range replay {
			if _, err := p.ask(ctx, c, m.Method, m.Params); err != nil {
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

// tellInitializedLocked sends a new process the notifications/initialized that an earlier one got, or none.
func (p *proxy) tellInitializedLocked(c *connection) {
	if p.initialize != nil && p.initialized && !c.told {
		c.told = c.send(wire.Request("", "notifications/initialized", nil))
	}
}

// ask sends a request of the proxy itself and returns the result.
func (p *proxy) ask(ctx context.Context, c *connection, method string, params any) (json.RawMessage, error) {
	id := strconv.Quote("stevedore-" + rand.Text())
	answer := make(chan *wire.Message, 1)
	p.mu.Lock()
	p.internal[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.internal, id)
		p.mu.Unlock()
	}()
	c.send(wire.Request(id, method, params))
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, fmt.Errorf("the server answered %s with the error %s", method, tools.Excerpt(string(m.Error), 300))
		}
		return m.Result, nil
	case <-time.After(p.cfg.StartTimeout):
		return nil, fmt.Errorf("the server did not answer %s within %s", method, p.cfg.StartTimeout)
	case <-c.closed:
		return nil, errors.New("the server ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// maxAttempts is how often a call is sent: a call that kills the server every time must
// not kill it for ever. Other requests are sent until the server is given up.
const maxAttempts = 2

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
	return r.attempts <= maxStarts && !r.mayAct()
}

// resume sends the requests that wait to a process that is ready, in their order. It
// fails the calls that must not run twice.
func (p *proxy) resume(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != c { // it has ended already, and the next one will send them
		return
	}
	p.tellInitializedLocked(c) // if the client sent it while the process started
	c.ready = true
	for _, r := range slices.SortedFunc(maps.Values(p.pending), func(a, b *request) int { return cmp.Compare(a.seq, b.seq) }) {
		switch {
		case r.answered:
		case p.repeatableLocked(r):
			p.queueLocked(r)
		default:
			p.failLocked(r, p.crashText(r, nil))
		}
	}
}

// interruptedLocked handles the requests of a process that ended.
func (p *proxy) interruptedLocked(c *connection, cause error) {
	for _, r := range p.pending {
		if !r.queued || r.answered {
			continue
		}
		r.queued = false
		if !p.repeatableLocked(r) && (p.listed || r.Method != "tools/call" || r.attempts >= maxAttempts || r.cancelled) {
			p.failLocked(r, p.crashText(r, cause))
		} // otherwise resume decides, when the tools are known
	}
	for id, r := range p.fromServer {
		if r.generation == c.generation {
			delete(p.fromServer, id)
			p.startLocked(func() {
				p.toClient(wire.Request("", "notifications/cancelled", fields{"requestId": json.RawMessage(id), "reason": "the server ended"}))
			})
		}
	}
}

func (p *proxy) crashText(r *request, cause error) string {
	reason := ""
	if cause != nil {
		reason = " (" + tools.Excerpt(cause.Error(), 500) + ")"
	}
	verb := "handled"
	if r.tool != "" {
		verb = "ran"
	}
	text := fmt.Sprintf("The MCP server %s ended while it %s %s%s. It is started again.%s", p.cfg.Name, verb, r.name(), reason, r.warning())
	if r.Method == "tools/call" && r.attempts >= maxAttempts {
		text += " The call seems to be the cause: do not repeat it unchanged."
	}
	return text
}

// giveUp fails all requests, because the server does not start.
func (p *proxy) giveUp(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.pending {
		if !r.answered {
			p.failLocked(r, fmt.Sprintf("The MCP server %s does not start: %s", p.cfg.Name, tools.Excerpt(cause.Error(), 600)))
		}
	}
	select {
	case <-p.demand: // of one of these requests
	default:
	}
}

// probeTimeout is how long a server that has been silent since a request expired may
// take to answer a ping.
const probeTimeout = 10 * time.Second

// probe ends a server that hangs. It is then started again.
func (p *proxy) probe(ctx context.Context, c *connection) {
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, p.cfg.CallTimeout))
	defer cancel()
	if _, err := p.ask(ctx, c, "ping", nil); errors.Is(err, context.DeadlineExceeded) {
		p.cfg.Log.Warn().Str("server", p.cfg.Name).Msg("MCP server hangs; it is ended")
		c.Close()
	}
}
