package wrap

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// served is the Link to the clients of a session over HTTP. Two clients of a shared
// session may use the same ids and progress tokens, so the proxy sees other ones.
type served struct {
	identity string
	owner    string
	shared   bool
	in       chan *wire.Message
	closed   chan struct{}
	close    sync.Once

	mu      sync.Mutex
	seq     int
	open    map[string]*exchange // by the id that the proxy sees; ended, if the client is gone
	events  *exchange            // the stream of a GET; nil if there is none
	backlog backlog              // for the next stream
	active  time.Time

	flushing sync.Mutex // keeps the backlog in order
}

func newServed(identity string, shared bool) *served {
	return &served{identity: identity, shared: shared, in: make(chan *wire.Message), closed: make(chan struct{}), open: map[string]*exchange{}, active: time.Now()}
}

// Receive implements Link.
func (s *served) Receive() (*wire.Message, error) {
	select {
	case m := <-s.in:
		return m, nil
	case <-s.closed:
		return nil, io.EOF
	}
}

// Close implements Link.
func (s *served) Close() { s.close.Do(func() { close(s.closed) }) }

// hasEnded reports whether the session accepts no more messages.
func (s *served) hasEnded() bool {
	select {
	case <-s.closed:
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
	open := s.open
	events := s.events
	s.open, s.events = map[string]*exchange{}, nil
	s.backlog.clear()
	s.mu.Unlock()
	for _, e := range open {
		if m, err := wire.ErrorResponse(e.id, wire.CodeInternal, text, nil); err == nil {
			e.write(m)
		}
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
		idle := s.events == nil && time.Since(s.active) > limit
		for _, e := range s.open {
			idle = idle && e.ended()
		}
		s.mu.Unlock()
		if idle {
			s.Close()
		}
	}
}

func (s *served) pass(ctx context.Context, m *wire.Message) bool {
	select {
	case s.in <- m:
		return true
	case <-s.closed:
	case <-ctx.Done():
	}
	m.Close()
	return false
}

// handle passes a message of a POST to the proxy, and waits for the response to a
// request.
func (s *served) handle(w http.ResponseWriter, r *http.Request, m *wire.Message) {
	s.mu.Lock()
	s.active = time.Now()
	s.seq++
	inner := strconv.Quote("http-" + strconv.Itoa(s.seq))
	s.mu.Unlock()
	if !m.IsRequest() {
		if m.Method == "notifications/cancelled" && !s.renameCancelled(m) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		copied, err := rewrite(m)
		if err != nil {
			sendError(w, http.StatusBadRequest, "null", wire.CodeParse, err.Error())
			return
		}
		if !s.pass(r.Context(), copied) {
			http.Error(w, unknownSession, http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	e := &exchange{id: m.ID, done: make(chan struct{}), w: w}
	if v, err := metaValue(m, "progressToken"); err == nil && v.Exists() {
		if raw, err := m.Bytes(v, 4<<10); err == nil {
			e.token = string(raw)
			m.Edits = append(m.Edits, wire.Edit{From: v.Start, To: v.End, With: []byte(inner)})
		}
	}
	copied, err := rewrite(withID(m, inner))
	if err != nil {
		sendError(w, http.StatusBadRequest, m.ID, wire.CodeParse, err.Error())
		return
	}
	s.mu.Lock()
	s.open[inner] = e
	s.mu.Unlock()
	if s.pass(r.Context(), copied) {
		select {
		case <-e.done:
		case <-r.Context().Done():
		case <-s.closed:
			<-e.done // end closes it
		}
	} else if m, err := wire.ErrorResponse(e.id, wire.CodeInternal, unknownSession, nil); err == nil {
		e.write(m)
	}
	s.mu.Lock()
	_, unanswered := s.open[inner]
	if s.shared { // otherwise its client may still cancel it, by its id
		delete(s.open, inner)
	}
	s.active = time.Now()
	s.mu.Unlock()
	e.finish()
	if unanswered && s.shared { // without sessions, this is how a client cancels
		if m, err := wire.Request("", "notifications/cancelled", map[string]any{"requestId": json.RawMessage(inner), "reason": "the client is gone"}); err == nil {
			s.pass(context.Background(), m)
		}
	}
}

// renameCancelled gives a cancellation the id that the proxy sees. It returns false if the
// cancellation names no open request of its client.
func (s *served) renameCancelled(m *wire.Message) bool {
	if m.Params.Kind != '{' || s.shared { // another client may have a request with this id
		return false
	}
	v, err := m.Get(m.Params, "requestId")
	if err != nil || !v.Exists() {
		return false
	}
	raw, err := m.Bytes(v, 4<<10)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for inner, e := range s.open {
		if e.id == string(raw) {
			m.Edits = append(m.Edits, wire.Edit{From: v.Start, To: v.End, With: []byte(inner)})
			delete(s.open, inner) // no response is sent
			e.finish()
			return true
		}
	}
	return false
}

// rewrite returns a message with its edits.
func rewrite(m *wire.Message) (*wire.Message, error) {
	var c wire.Collector
	defer c.Close()
	if err := m.WriteEdited(&c, m.Edits); err != nil {
		return nil, err
	}
	body := c.Body()
	out, err := wire.Parse(body)
	if err != nil {
		body.Close()
	}
	return out, err
}

// metaValue returns a value of the _meta of a message.
func metaValue(m *wire.Message, key string) (wire.Value, error) {
	if m.Params.Kind != '{' {
		return wire.Value{}, nil
	}
	meta, err := m.Get(m.Params, "_meta")
	if err != nil || meta.Kind != '{' {
		return wire.Value{}, err
	}
	return m.Get(meta, key)
}

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
		renamed := withID(m, e.id)
		if v, err := resultMeta(m, subscriptionKey); err == nil && v.Exists() {
			renamed.Edits = append(renamed.Edits, wire.Edit{From: v.Start, To: v.End, With: []byte(e.id)})
		}
		e.write(renamed)
		e.finish()
		return nil
	}
	s.flush() // what is older
	e, named := s.exchangeOf(m)
	if e != nil && e.write(m) || named || s.shared {
		return nil
	}
	s.mu.Lock()
	s.backlog.add(m)
	s.mu.Unlock()
	s.flush()
	return nil
}

// subscriptionKey names the request subscriptions/listen to which a message belongs.
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

func resultMeta(m *wire.Message, key string) (wire.Value, error) {
	if m.Result.Kind != '{' || m.Size() > 64<<10 {
		return wire.Value{}, nil
	}
	meta, err := m.Get(m.Result, "_meta")
	if err != nil || meta.Kind != '{' {
		return wire.Value{}, err
	}
	return m.Get(meta, key)
}

// exchangeOf returns the exchange on which a notification or a request of the server
// is sent: the one that it names, the stream, or an open request. It returns nil if there is
// none.
func (s *served) exchangeOf(m *wire.Message) (e *exchange, named bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	find := func(v wire.Value, err error, as func(*exchange) string) *exchange {
		if err != nil || !v.Exists() {
			return nil
		}
		raw, err := m.Bytes(v, 4<<10)
		e := s.open[string(raw)]
		if err != nil || e == nil {
			return nil
		}
		m.Edits = append(m.Edits, wire.Edit{From: v.Start, To: v.End, With: []byte(cmp.Or(as(e), "null"))})
		return e
	}
	if m.Method == "notifications/progress" && m.Params.Kind == '{' {
		v, err := m.Get(m.Params, "progressToken")
		return find(v, err, func(e *exchange) string { return e.token }), true
	}
	v, err := metaValue(m, subscriptionKey)
	if e := find(v, err, func(e *exchange) string { return e.id }); e != nil {
		return e, true
	}
	if s.events != nil {
		return s.events, false
	}
	if len(s.open) == 1 || !s.shared {
		for _, e := range s.open {
			if !e.ended() {
				return e, false
			}
		}
	}
	return nil, false
}

// keepAlive is the time between two comments on a stream, so that proxies keep it open.
const keepAlive = 25 * time.Second

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
	for waiting := true; waiting; {
		select {
		case <-e.done:
			waiting = false
		case <-r.Context().Done():
			waiting = false
		case <-s.closed:
			waiting = false
		case <-time.After(keepAlive):
			e.comment()
		}
	}
	s.mu.Lock()
	if s.events == e {
		s.events = nil
	}
	s.active = time.Now()
	s.mu.Unlock()
	e.finish()
}
