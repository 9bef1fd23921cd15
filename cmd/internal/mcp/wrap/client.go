package wrap

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
)

// fromClient handles the messages of the client until its link ends.
func (p *proxy) fromClient(ctx context.Context) error {
	for {
		m, err := p.client.Receive()
		if wire.IsOfOneMessage(err) {
			p.toClient(invalid(err))
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
	p.inspect(r)
	answer := p.local(r)
	p.mu.Lock()
	if open := p.pending[m.ID]; open != nil && !open.answered {
		p.mu.Unlock()
		p.toClient(wire.ErrorResponse(m.ID, wire.CodeInvalidRequest, "a request with this id is still open"))
		return
	}
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.seq++
	r.seq = p.seq
	p.pending[m.ID] = r
	if answer != nil {
		r.answered = true
		ctx, r.stop = context.WithCancel(ctx)
		p.startLocked(func() { p.respondLocally(ctx, r, answer) })
		return
	}
	r.timer = time.AfterFunc(p.cfg.CallTimeout, func() { p.expired(ctx, r) })
	if p.cfg.BackgroundAfter > 0 && r.Method == "tools/call" && p.hosted.Load() != nil {
		r.patience = time.AfterFunc(p.cfg.BackgroundAfter, func() { p.toBackground(ctx, r) })
	}
	if p.server != nil && p.server.ready {
		p.queueLocked(r)
	}
	select {
	case p.demand <- struct{}{}:
	default:
	}
}

// inspect reads the parts of a request that the proxy needs.
func (p *proxy) inspect(r *request) {
	text := func(path ...string) string {
		value, _ := wire.Text(wire.Get(r.Params, path...))
		return value
	}
	r.firstPage = text("cursor") == ""
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Method {
	case "tools/call":
		r.tool = text("name")
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		r.uri = text("uri")
	case "tasks/get", "tasks/result":
		r.tool = p.taskTools[text("taskId")]
	}
	switch r.Method { // for a server that is started again
	case "logging/setLevel":
		p.replay[""] = r.Message
	case "resources/subscribe":
		p.replay[r.uri] = r.Message
	case "resources/unsubscribe":
		delete(p.replay, r.uri)
	}
	meta := wire.Get(r.Params, "_meta")
	r.token = wire.IDOf(wire.Get(meta, "progressToken"))
	if r.version = text("_meta", versionKey); r.version != "" {
		p.meta, p.version = meta, max(p.version, r.version)
		name, _ := wire.Text(wire.Get(meta, "io.modelcontextprotocol/clientInfo", "name"))
		p.setClientLocked(name)
	}
}

// fromClientNotification forwards a notification.
func (p *proxy) fromClientNotification(m *wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "notifications/initialized":
		p.initialized = true
	case "notifications/cancelled":
		r := p.pending[wire.IDOf(wire.Get(m.Params, "requestId"))]
		switch {
		case r == nil:
		case r.job != nil: // it was answered; only the reading tool ends it now
			return
		case r.stop != nil:
			r.stop()
			return
		case !r.queued: // the server does not know it
			p.removeLocked(r)
			return
		case !r.answered:
			r.cancelled = true
			r.timer.Reset(time.Minute) // the server may still answer
		}
	}
	if p.server != nil && p.server.ready {
		p.server.send(m)
	}
}

// fromClientResponse passes the client's answer to the server that asked.
func (p *proxy) fromClientResponse(m *wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.fromServer[m.ID]
	delete(p.fromServer, m.ID)
	if ok && p.server != nil && p.server.generation == r.generation {
		p.server.send(m.With("id", json.RawMessage(r.id)))
	}
}

// local returns what answers a request that is not for the server; nil if the server
// answers it.
func (p *proxy) local(r *request) func(context.Context) (fields, error) {
	h := p.hosted.Load()
	switch {
	case h == nil:
	case r.Method == "tools/call":
		if name, ok := p.readingTool(r.tool); ok {
			return func(ctx context.Context) (fields, error) {
				args, res := p.awaitJob(ctx, wire.Get(r.Params, "arguments"))
				if res == nil {
					res = h.reading.Call(ctx, p.cfg.Session, name, args)
					if !res.IsError { // a content, which may have the names of tools
						return r.toolResult(res), nil
					}
				}
				res.ForLLM = p.text(res.ForLLM)
				return r.toolResult(res), nil
			}
		}
	case r.Method == "resources/read" && artifacts.IsURI(r.uri):
		return func(ctx context.Context) (fields, error) {
			session, args := artifacts.ParseRead(r.uri)
			if args != nil && session == p.cfg.session && p.reads() == hosts.ByResource {
				res := h.reading.Call(ctx, p.cfg.Session, artifacts.ReadResult, args)
				if res.IsError {
					res.ForLLM = p.text(res.ForLLM)
				}
				text := mcp.ResourceContents{URI: r.uri, MIMEType: "text/plain", Text: res.ForLLM}
				return r.result(fields{"contents": []any{&text}}), nil
			}
			address, err := artifacts.ParseURI(r.uri)
			if err != nil {
				return nil, err
			}
			contents, err := artifacts.Read(ctx, h.reader, p.cfg.session, address)
			return r.result(fields{"contents": contents}), err
		}
	case r.Method == "tools/list" && p.lacks("tools"):
		return func(context.Context) (fields, error) {
			list := []*mcp.Tool{}
			if p.offersReading() {
				list = h.reading.List(func(name string) string { return name })
			}
			return r.result(fields{"tools": list}), nil
		}
	case r.Method == "resources/list" && p.lacks("resources"):
		return func(ctx context.Context) (fields, error) { return p.listArtifacts(ctx, r) }
	case r.Method == "resources/templates/list" && p.lacks("resources"):
		return func(context.Context) (fields, error) {
			return r.result(fields{"resourceTemplates": []any{artifacts.Template}}), nil
		}
	}
	return nil
}

func (p *proxy) respondLocally(ctx context.Context, r *request, answer func(context.Context) (fields, error)) {
	defer p.remove(r)
	defer r.stop()
	result, err := answer(ctx)
	switch {
	case ctx.Err() != nil: // the client expects no answer
	case err != nil:
		p.toClient(wire.ErrorResponse(r.ID, wire.CodeInvalidParams, err.Error()))
	default:
		m := wire.Response(r.ID, result)
		p.toClient(m)
		p.noteListed(r)
		p.countRead(ctx, r, m.Result)
	}
}

// lacks reports whether the server is known not to have a capability.
func (p *proxy) lacks(capability string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.capabilities[capability]
	return p.capabilities != nil && !has
}

func (p *proxy) listArtifacts(ctx context.Context, r *request) (fields, error) {
	cursor, _ := wire.Text(wire.Get(r.Params, "cursor"))
	page, err := artifacts.List(cursor, func(offset int) (*offload.Listing, error) {
		return p.hosted.Load().reader.Query(ctx, p.cfg.session, nil, offset, 0)
	})
	if err != nil {
		return nil, err
	}
	result := fields{"resources": page.Resources}
	if page.NextCursor != "" {
		result["nextCursor"] = page.NextCursor
	}
	return r.result(result), nil
}

// expired answers a request to which the server does not respond.
func (p *proxy) expired(ctx context.Context, r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending[r.ID] != r || r.answered || r.Method == wire.MethodListen && !r.cancelled {
		return
	}
	if c := p.server; c != nil && r.queued && !r.cancelled {
		c.send(wire.Request("", "notifications/cancelled", fields{"requestId": json.RawMessage(r.ID), "reason": "no response in time"}))
		if r.written.After(c.heard) {
			p.startLocked(func() { p.probe(ctx, c) })
		}
	}
	if r.attempts == 0 {
		p.failLocked(r, fmt.Sprintf("The MCP server %s was not ready within %s. The request was not sent.", p.cfg.Name, p.cfg.CallTimeout))
		return
	}
	p.failLocked(r, fmt.Sprintf("The MCP server %s did not respond within %s, and the request was cancelled.%s", p.cfg.Name, p.cfg.CallTimeout, r.warning()))
}
