package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// proxy is the state of one client's session.
//
//	client  -> fromClient -> forward -> outbox -> server
//	client <- toClient  <- respond  <- fromServer <- server
type proxy struct {
	cfg      Config
	client   Link
	reader   *offload.Reader
	reading  *artifacts.Tools
	shrinker *shrinker
	flood    *flood
	demand   chan struct{} // a request waits for a server that is down
	slots    chan struct{} // limits the results that are stored at the same time
	work     sync.WaitGroup

	sending sync.Mutex // of client.Send

	mu         sync.Mutex
	server     *connection // nil while the server is down
	generation int
	seq        int
	pending    map[string]*request           // requests of the client, by id
	responding int                           // responses of the server that are not sent on yet
	calls      map[string]context.CancelFunc // calls of reading tools, by id
	internal   map[string]chan *wire.Message // requests of the proxy, by id
	fromServer map[string]serverRequest      // requests of the server, by the id that the client knows

	// What a new process must be told, because the client told it the earlier one.
	initialize    json.RawMessage          // params; nil before the session is initialized
	initialized   bool                     // the client sent notifications/initialized
	level         *wire.Message            // the last logging/setLevel
	subscriptions map[string]*wire.Message // resources/subscribe by URI
	meta          json.RawMessage          // the last _meta with the client's capabilities

	version      string // the latest revision that the client is known to accept
	capabilities map[string]json.RawMessage
	known        map[string]toolInfo // the server's tools
	listed       bool                // known is complete
	taskTools    map[string]string   // the tools of tasks, by their ids
}

// request is a request of the client that the server has not answered.
type request struct {
	*wire.Message
	seq       int
	tool      string // of tools/call, or of the task of tasks/get
	uri       string // of resources/read
	token     string // the progress token
	firstPage bool   // of a list
	sent      bool   // to the current process, or in the queue to it
	attempts  int    // how often it was written
	written   time.Time
	unsent    int // how often the server did not accept it
	cancelled bool
	expires   time.Time
	progress  time.Time // when progress was last sent to the client
}

// serverRequest is a request of the server that the client has not answered.
type serverRequest struct {
	id         string // as the server knows it
	generation int
}

// toolInfo is what the proxy must know about a tool.
type toolInfo struct {
	repeatable   bool
	outputSchema json.RawMessage
}

func (p *proxy) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	serving := make(chan error, 1)
	go func() { serving <- p.serve(ctx) }()
	reading := make(chan error, 1)
	go func() { reading <- p.fromClient(ctx) }()
	go p.expire(ctx)

	var err error
	select {
	case err = <-serving: // the server cannot be started
		serving <- nil
	case err = <-reading:
		if errors.Is(err, io.EOF) {
			err = nil
		}
		p.drain(ctx)
	case <-ctx.Done():
	}
	cancel()
	<-serving
	p.work.Wait()
	p.client.Close()
	return err
}

// After the client has closed its side, the server has drainTime to answer open
// requests, and the proxy has storeTime to send the answers on. Hosts that do not want
// to wait send SIGTERM, which ends ctx.
const (
	drainTime = 10 * time.Second
	storeTime = time.Minute
)

// drain waits until no request of the client is open.
func (p *proxy) drain(ctx context.Context) {
	for began := time.Now(); ctx.Err() == nil; {
		p.mu.Lock()
		open, responding := len(p.calls), p.responding
		for _, r := range p.pending {
			if !r.cancelled {
				open++
			}
		}
		p.mu.Unlock()
		waited := time.Since(began)
		if (open == 0 || waited > drainTime) && (responding == 0 || waited > storeTime) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// fromClient handles the messages of the client until its link ends.
func (p *proxy) fromClient(ctx context.Context) error {
	for {
		m, err := p.client.Receive()
		if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
			response, err := wire.ErrorResponse("null", wire.CodeParse, "the message is not valid: "+tools.Excerpt(syntax.Error(), 200), nil)
			if err == nil {
				p.toClient(response)
			}
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case m.IsRequest():
			p.fromClientRequest(ctx, m)
		case m.IsNotification():
			p.fromClientNotification(m)
		default:
			p.fromClientResponse(m)
		}
	}
}

// fromClientRequest answers a request, or forwards it to the server.
func (p *proxy) fromClientRequest(ctx context.Context, m *wire.Message) {
	r := &request{Message: m}
	if err := p.inspect(r); err != nil {
		p.reject(m.ID, wire.CodeInvalidParams, err.Error())
		m.Close()
		return
	}
	if p.local(ctx, r) {
		return
	}
	p.mu.Lock()
	if _, open := p.pending[m.ID]; open {
		p.mu.Unlock()
		p.reject(m.ID, wire.CodeInvalidRequest, "a request with this id is still open")
		m.Close()
		return
	}
	p.seq++
	r.seq, r.expires = p.seq, time.Now().Add(p.cfg.CallTimeout)
	p.pending[m.ID] = r
	full := p.server != nil && p.server.ready && !p.sendLocked(r)
	p.mu.Unlock()
	if full {
		p.fail(r, p.fullText())
		return
	}
	select {
	case p.demand <- struct{}{}:
	default:
	}
}

// inspect reads the parts of a request that the proxy needs.
func (p *proxy) inspect(r *request) error {
	if r.Params.Kind != '{' {
		r.firstPage = true
		return nil
	}
	members, err := r.Members(r.Params, 1000)
	if err != nil {
		return err
	}
	text := func(key string) (value string) {
		if v := wire.Find(members, key); err == nil && v.Kind == '"' {
			value, err = r.Text(v, 64<<10)
		}
		return value
	}
	r.firstPage = text("cursor") == ""
	switch r.Method {
	case "tools/call":
		r.tool = text("name")
	case "resources/read":
		r.uri = text("uri")
	case "tasks/get", "tasks/result":
		id := text("taskId")
		p.mu.Lock()
		r.tool = p.taskTools[id]
		p.mu.Unlock()
	}
	if err != nil {
		return err
	}
	metaValue := wire.Find(members, "_meta")
	if metaValue.Kind != '{' {
		return nil
	}
	raw, err := r.Bytes(metaValue, 64<<10)
	if err != nil {
		return err
	}
	var meta struct {
		Token   json.RawMessage `json:"progressToken"`
		Version string          `json:"io.modelcontextprotocol/protocolVersion"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return err
	}
	r.token = string(meta.Token)
	if meta.Version != "" {
		p.mu.Lock()
		p.meta, p.version = append(json.RawMessage(nil), raw...), later(p.version, meta.Version)
		p.mu.Unlock()
	}
	return nil
}

// fromClientNotification forwards a notification.
func (p *proxy) fromClientNotification(m *wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "notifications/initialized":
		p.initialized = true
	case "notifications/cancelled":
		var params struct {
			ID json.RawMessage `json:"requestId"`
		}
		if m.Decode(m.Params, 64<<10, &params) == nil {
			id := string(params.ID)
			if cancel, ok := p.calls[id]; ok {
				cancel()
				m.Close()
				return
			}
			r, ok := p.pending[id]
			if ok && !r.sent { // the server does not know it
				delete(p.pending, id)
				r.Close()
				m.Close()
				return
			}
			if ok {
				r.cancelled = true
				r.expires = time.Now().Add(time.Minute) // a server may still answer
			}
		}
	}
	if p.server == nil || !p.server.ready {
		m.Close()
		return
	}
	p.server.send(m)
}

// fromClientResponse passes the client's answer to the server that asked.
func (p *proxy) fromClientResponse(m *wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.fromServer[m.ID]
	delete(p.fromServer, m.ID)
	if !ok || p.server == nil || p.server.generation != r.generation {
		m.Close()
		return
	}
	if r.id != m.ID {
		m = withID(m, r.id)
	}
	p.server.send(m)
}

// withID gives a message another id.
func withID(m *wire.Message, id string) *wire.Message {
	whole, err := m.Whole()
	if err != nil {
		return m
	}
	v, err := m.Get(whole, "id")
	if err == nil && v.Exists() {
		m.Edits = append(m.Edits, wire.Edit{From: v.Start, To: v.End, With: []byte(id)})
	}
	return m
}

// toClient sends a message to the client and closes it. If the client is gone, its
// Receive fails, too, and ends the proxy.
func (p *proxy) toClient(m *wire.Message) {
	p.sending.Lock()
	defer p.sending.Unlock()
	defer m.Close()
	if err := p.client.Send(m); err != nil {
		p.cfg.Log.Debug().Err(err).Msg("cannot send to the client")
	}
}

// answer sends a result to the client.
func (p *proxy) answer(id string, result any) {
	m, err := wire.Response(id, result)
	if err != nil {
		p.reject(id, wire.CodeInternal, err.Error())
		return
	}
	p.toClient(m)
}

// reject sends an error to the client.
func (p *proxy) reject(id string, code int, message string) {
	if m, err := wire.ErrorResponse(id, code, message, nil); err == nil {
		p.toClient(m)
	}
}

// fail answers a request that the server cannot answer. A model sees the result of a
// tool, but not an error of the protocol.
func (p *proxy) fail(r *request, text string) {
	defer r.Close()
	if r.cancelled {
		return
	}
	if r.Method == "tools/call" {
		p.answer(r.ID, toolResult(tools.ErrorResult(text)))
		return
	}
	p.reject(r.ID, wire.CodeInternal, text)
}

// callResult is the result of tools/call.
type callResult struct {
	ResultType string `json:"resultType"`
	Content    []any  `json:"content"`
	IsError    bool   `json:"isError,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func toolResult(res *tools.Result) callResult {
	content := append([]any{textBlock{"text", res.ForLLM}}, artifacts.Media(res)...)
	return callResult{ResultType: "complete", Content: content, IsError: res.IsError}
}

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
		p.mu.Unlock()
		if silent != nil {
			p.work.Go(func() { p.probe(ctx, silent) })
		}
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
