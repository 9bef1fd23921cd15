package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

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
