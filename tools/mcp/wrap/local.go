package wrap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// opened reads the server's capabilities and adds those of the proxy: the reading
// tools, and the artifacts as resources.
func (p *proxy) opened(r *request, m *wire.Message) {
	if m.Result.Kind != '{' {
		return
	}
	var result struct {
		Version      string                     `json:"protocolVersion"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if err := m.Decode(m.Result, 1<<20, &result); err != nil {
		return
	}
	p.mu.Lock()
	p.capabilities = result.Capabilities
	if p.capabilities == nil {
		p.capabilities = map[string]json.RawMessage{}
	}
	if r.Method == "initialize" {
		if params, err := r.Bytes(r.Params, 1<<20); err == nil {
			p.initialize = slices.Clone(params)
		}
		p.version = later(p.version, result.Version)
	}
	p.mu.Unlock()

	var missing []byte
	for _, name := range []string{"tools", "resources"} {
		if _, ok := result.Capabilities[name]; !ok {
			if len(missing) > 0 {
				missing = append(missing, ',')
			}
			missing = fmt.Appendf(missing, "%q:{}", name)
		}
	}
	if missing == nil {
		return
	}
	v, err := m.Get(m.Result, "capabilities")
	switch {
	case err != nil:
	case v.Kind == '{':
		if len(result.Capabilities) > 0 {
			missing = append([]byte{','}, missing...)
		}
		m.Edits = append(m.Edits, wire.Edit{From: v.End - 1, To: v.End - 1, With: missing})
	}
}

// lacks reports whether the server is known not to have a capability.
func (p *proxy) lacks(capability string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.capabilities[capability]
	return p.capabilities != nil && !has
}

// local answers a request that is not for the server, and reports whether it did.
func (p *proxy) local(ctx context.Context, r *request) bool {
	var answer func(context.Context) (any, error)
	switch r.Method {
	case "tools/call":
		name, ok := p.readingTool(r.tool)
		if !ok {
			return false
		}
		answer = func(ctx context.Context) (any, error) { return p.callReadingTool(ctx, r, name) }
	case "resources/read":
		if !artifacts.IsURI(r.uri) {
			return false
		}
		answer = func(ctx context.Context) (any, error) { return p.readArtifact(ctx, r.uri) }
	case "tools/list":
		if !p.lacks("tools") {
			return false
		}
		answer = func(context.Context) (any, error) {
			return list{"tools": p.reading.List(func(name string) string { return name })}.complete(), nil
		}
	case "resources/list":
		if !p.lacks("resources") {
			return false
		}
		answer = p.listArtifacts
	case "resources/templates/list":
		if !p.lacks("resources") {
			return false
		}
		answer = func(context.Context) (any, error) {
			return list{"resourceTemplates": []any{map[string]string{
				"uriTemplate": artifacts.Template, "name": "artifact", "description": artifacts.TemplateDescription,
			}}}.complete(), nil
		}
	case "logging/setLevel":
		p.mu.Lock()
		p.level = r.Message
		p.mu.Unlock()
		return false
	case "resources/subscribe", "resources/unsubscribe":
		p.subscribed(r)
		return false
	default:
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	started := p.startLocked(func() {
		defer r.Close()
		result, err := answer(ctx)
		stopped := ctx.Err() != nil
		cancel()
		switch {
		case stopped: // the client expects no answer
		case err != nil:
			p.reject(r.ID, wire.CodeInvalidParams, err.Error())
		default:
			p.answer(r.ID, result)
		}
		p.mu.Lock()
		delete(p.calls, r.ID)
		p.mu.Unlock()
	})
	if !started {
		cancel()
		r.Close()
		return true
	}
	p.calls[r.ID] = cancel
	return true
}

// list is the result of a list method.
type list map[string]any

// complete adds what revision 2026-07-28 wants; earlier ones ignore it.
func (l list) complete() list {
	l["resultType"], l["ttlMs"], l["cacheScope"] = "complete", 0, "private"
	return l
}

// maxSubscriptions is how many subscriptions survive a restart of the server.
const maxSubscriptions = 1000

func (p *proxy) subscribed(r *request) {
	var params struct {
		URI string `json:"uri"`
	}
	if !r.InMemory() || r.Decode(r.Params, 64<<10, &params) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method == "resources/unsubscribe" {
		delete(p.subscriptions, params.URI)
	} else if len(p.subscriptions) < maxSubscriptions {
		p.subscriptions[params.URI] = r.Message
	}
}

// rename returns the name under which the client sees a reading tool. The server's
// tools keep their names.
func (p *proxy) rename(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renameLocked(name)
}

func (p *proxy) renameLocked(name string) string {
	for {
		if _, taken := p.known[name]; !taken {
			return name
		}
		name = "stevedore_" + name
	}
}

// readingTool returns the reading tool that the client calls by a name.
func (p *proxy) readingTool(name string) (string, bool) {
	for _, tool := range artifacts.Names {
		if p.rename(tool) == name {
			return tool, true
		}
	}
	return "", false
}

func (p *proxy) callReadingTool(ctx context.Context, r *request, name string) (any, error) {
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := r.Decode(r.Params, 1<<20, &params); err != nil {
		return nil, err
	}
	res := p.reading.Call(ctx, p.cfg.Session, name, params.Arguments)
	res.ForLLM = artifacts.Rename(res.ForLLM, p.rename)
	return toolResult(res), nil
}

func (p *proxy) readArtifact(ctx context.Context, uri string) (any, error) {
	address, err := artifacts.ParseURI(uri)
	if err != nil {
		return nil, err
	}
	contents, err := artifacts.Read(ctx, p.reader, p.cfg.Session, address)
	if err != nil {
		return nil, err
	}
	return list{"contents": contents}.complete(), nil
}

// maxListed is the most artifacts in a list.
const maxListed = 1000

func (p *proxy) listArtifacts(ctx context.Context) (any, error) {
	resources := []artifacts.Link{}
	for rec, err := range p.cfg.Store.List(ctx, p.cfg.Session) {
		if err != nil {
			return nil, err
		}
		resources = append(resources, artifacts.ResourceOf(rec))
	}
	slices.Reverse(resources) // the newest first
	return list{"resources": resources[:min(len(resources), maxListed)]}.complete(), nil
}

// links reports whether the client knows content blocks of the type resource_link.
func (p *proxy) links() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version >= "2025-06-18"
}
