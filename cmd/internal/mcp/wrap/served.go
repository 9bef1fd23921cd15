package wrap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// served is the Link to the clients of a session over HTTP. Two clients of a shared
// session may use the same ids and progress tokens, so the proxy sees other ones.
//
// The SDK's StreamableServerTransport cannot be used here: it refuses methods that it does
// not know, and sends what the server says during a request to the stream of a GET, which
// clients of revision 2026-07-28 do not have.
type served struct {
	pipe     // from the clients to the proxy; Send is the other way
	identity string
	owner    string
	shared   bool
	busy     func() bool // a call of it runs in the background; nil means none

	mu     sync.Mutex
	seq    int
	open   map[string]*exchange // by the id that the proxy sees; ended, if the client is gone
	events *exchange            // the stream of a GET; nil if there is none
	active time.Time

	flushing sync.Mutex
	backlog  []*wire.Message // for the next stream
}

func newServed(identity string, shared bool) *served {
	clients := newPipe(make(chan *wire.Message), nil)
	return &served{pipe: clients, identity: identity, shared: shared, open: map[string]*exchange{}, active: time.Now()}
}

// exchange is a request of a client, or its GET.
type exchange struct {
	id, token string // as the client knows them
	done      chan struct{}

	mu      sync.Mutex
	w       http.ResponseWriter // nil when the exchange has ended
	flowing bool                // it is a stream of events
}

// writeTimeout is how long a client may take to receive a message. The messages behind
// it wait.
const writeTimeout = 30 * time.Second

// write sends a message: as the only content if it is the response and nothing was
// sent before, otherwise as an event. It returns false if the client is known to be gone.
func (e *exchange) write(m *wire.Message) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.w == nil:
		return false
	case m.IsResponse() && !e.flowing:
		e.w.Header().Set("Content-Type", "application/json")
		return e.writeLocked(m.Text())
	case !e.flowing:
		e.flowing = true
		e.w.Header().Set("Content-Type", "text/event-stream")
	}
	return e.writeLocked([]byte("event: message\ndata: "), m.Text(), []byte("\n\n"))
}

// comment sends a line that clients ignore.
func (e *exchange) comment() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w != nil && e.flowing {
		e.writeLocked([]byte(": \n\n"))
	}
}

func (e *exchange) writeLocked(parts ...[]byte) bool {
	c := http.NewResponseController(e.w)
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	for _, part := range parts {
		_, _ = e.w.Write(part) // Flush fails after a write that failed
	}
	if !e.flowing {
		return true
	}
	err := c.Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// finish ends the exchange: nothing is written after it.
func (e *exchange) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w != nil {
		e.w = nil
		close(e.done)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end answers the open requests when the proxy has ended.
func (s *served) end(cause error) {
	s.Close()
	text := "the session has ended"
	if cause != nil {
		text += ": " + cause.Error()
	}
	s.mu.Lock()
	open, events := s.open, s.events
	s.open, s.events = map[string]*exchange{}, nil
	s.mu.Unlock()
	for _, e := range open {
		e.write(wire.ErrorResponse(e.id, wire.CodeInternal, text))
		e.finish()
	}
	if events != nil {
		events.finish()
	}
}

func (s *served) closeWhenIdle(ctx context.Context, limit time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		case <-time.After(limit / 4):
		}
		s.mu.Lock()
		idle := s.events == nil && time.Since(s.active) > limit && (s.busy == nil || !s.busy())
		for _, e := range s.open {
			idle = idle && isClosed(e.done)
		}
		s.mu.Unlock()
		if idle {
			s.Close()
		}
	}
}

// pass passes a message to the proxy.
func (s *served) pass(ctx context.Context, m *wire.Message) bool {
	select {
	case s.in <- m:
		return true
	case <-s.closed:
	case <-ctx.Done():
	}
	return false
}

// handle passes a message of a POST to the proxy, and waits for the response to a
// request.
func (s *served) handle(w http.ResponseWriter, r *http.Request, m *wire.Message) {
	s.mu.Lock()
	s.active = time.Now()
	s.seq++
	inner := wire.JSON("http-" + strconv.Itoa(s.seq))
	s.mu.Unlock()
	if !m.IsRequest() {
		if m.Method == "notifications/cancelled" {
			m = s.cancelled(m)
		}
		if m != nil && !s.pass(r.Context(), m) {
			http.Error(w, unknownSession, http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	e := &exchange{id: m.ID, token: string(wire.Get(m.Params, "_meta", "progressToken")), done: make(chan struct{}), w: w}
	if e.token != "" {
		m = m.With("params", wire.Set(m.Params, inner, "_meta", "progressToken"))
	}
	s.mu.Lock()
	s.open[string(inner)] = e
	s.mu.Unlock()
	if s.pass(r.Context(), m.With("id", inner)) {
		if s.hold(r.Context(), e); isClosed(s.closed) {
			<-e.done // end closes it
		}
	} else {
		e.write(wire.ErrorResponse(e.id, wire.CodeInternal, unknownSession))
	}
	s.mu.Lock()
	_, unanswered := s.open[string(inner)]
	if s.shared { // otherwise its client may still cancel it, by its id
		delete(s.open, string(inner))
	}
	s.active = time.Now()
	s.mu.Unlock()
	e.finish()
	if unanswered && s.shared { // without sessions, this is how a client cancels
		s.pass(context.Background(), wire.Request("", "notifications/cancelled", fields{"requestId": inner, "reason": "the client is gone"}))
	}
}

// cancelled returns a cancellation with the id that the proxy sees. It returns nil if the
// cancellation names no open request of its client.
func (s *served) cancelled(m *wire.Message) *wire.Message {
	if s.shared { // another client may have a request with this id
		return nil
	}
	id := wire.IDOf(wire.Get(m.Params, "requestId"))
	s.mu.Lock()
	defer s.mu.Unlock()
	for inner, e := range s.open {
		if e.id == id {
			delete(s.open, inner) // no response is sent
			e.finish()
			return m.With("params", wire.Set(m.Params, json.RawMessage(inner), "requestId"))
		}
	}
	return nil
}

// subscriptionKey names the request subscriptions/listen to which a message belongs.
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// Send implements Link.
func (s *served) Send(m *wire.Message) error {
	if m.IsResponse() {
		s.mu.Lock()
		e := s.open[m.ID]
		delete(s.open, m.ID)
		s.mu.Unlock()
		if e == nil { // its client is gone
			return nil
		}
		if wire.Get(m.Result, "_meta", subscriptionKey) != nil {
			m = m.With("result", wire.Set(m.Result, json.RawMessage(e.id), "_meta", subscriptionKey))
		}
		e.write(m.With("id", json.RawMessage(e.id)))
		e.finish()
		return nil
	}
	// A message that names a request goes to it, with the client's name.
	path, as := []string{"_meta", subscriptionKey}, func(e *exchange) string { return e.id }
	if m.Method == "notifications/progress" {
		path, as = []string{"progressToken"}, func(e *exchange) string { return cmp.Or(e.token, "null") }
	}
	s.mu.Lock()
	e := s.open[string(wire.Get(m.Params, path...))]
	s.mu.Unlock()
	switch {
	case e != nil:
		s.flush() // what is older
		e.write(m.With("params", wire.Set(m.Params, json.RawMessage(as(e)), path...)))
	case m.Method != "notifications/progress":
		s.flush(m)
	}
	return nil
}

const (
	// maxBacklog is how many messages wait for a stream, and maxBacklogBytes how many bytes
	// they have together.
	maxBacklog      = 100
	maxBacklogBytes = 8 << 20
)

// flush sends the backlog and messages of the server that belong to no request on the
// stream of a GET or of an open request. If there is none, the last ones wait for the next
// one, unless it could be that of another client.
func (s *served) flush(added ...*wire.Message) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.backlog = append(s.backlog, added...)
	for e := s.target(); e != nil && len(s.backlog) > 0; e = s.target() {
		if !e.write(s.backlog[0]) {
			e.finish() // its client is gone
			continue
		}
		s.backlog = s.backlog[1:]
	}
	var kept []*wire.Message
	size := int64(0)
	for _, m := range slices.Backward(s.backlog) {
		if !s.shared && len(kept) < maxBacklog && size+m.Size() <= maxBacklogBytes {
			kept, size = append(kept, m), size+m.Size()
		}
	}
	slices.Reverse(kept)
	s.backlog = kept
}

// target returns the exchange for messages that belong to no request; nil if there is none.
func (s *served) target() *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != nil && !isClosed(s.events.done) {
		return s.events
	}
	if len(s.open) == 1 || !s.shared {
		for _, e := range s.open {
			if !isClosed(e.done) {
				return e
			}
		}
	}
	return nil
}

// keepAlive is the time between two comments on a stream, so that proxies keep it open.
const keepAlive = 25 * time.Second

// hold waits for the end of an exchange or of the session, or until the client is gone.
func (s *served) hold(ctx context.Context, e *exchange) {
	for {
		select {
		case <-e.done:
			return
		case <-s.closed:
			return
		case <-ctx.Done():
			return
		case <-time.After(keepAlive):
			e.comment()
		}
	}
}

// stream serves a GET: the messages that belong to no request.
func (s *served) stream(w http.ResponseWriter, r *http.Request) {
	e := &exchange{done: make(chan struct{}), w: w, flowing: true}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	previous := s.events
	s.events = e
	s.mu.Unlock()
	if previous != nil { // the client has one stream
		previous.finish()
	}
	e.comment()
	s.flush()
	s.hold(r.Context(), e)
	s.mu.Lock()
	if s.events == e {
		s.events = nil
	}
	s.active = time.Now()
	s.mu.Unlock()
	e.finish()
}
