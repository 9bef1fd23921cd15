package wrap

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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
