package wrap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// toolInfo is what the proxy must know about a tool of the server.
type toolInfo struct {
	repeatable   bool
	outputSchema json.RawMessage
}

// learn reads a page of the server's tools and returns the next cursor, and the tools as a worker needs them. Some servers send
// hints as strings, or a title as a number: no tool is left out for that.
func (p *proxy) learn(result json.RawMessage, firstPage bool) (list []json.RawMessage, cursor string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if firstPage {
		p.known = map[string]toolInfo{}
	}
	for raw := range wire.Elements(wire.Get(result, "tools")) {
		name, ok := wire.Text(wire.Get(raw, "name"))
		readOnly, idempotent := wire.Get(raw, "annotations", "readOnlyHint"), wire.Get(raw, "annotations", "idempotentHint")
		if !ok || !isHint(readOnly) || !isHint(idempotent) {
			p.cfg.Log.Warn().Str("server", p.cfg.Name).Str("tool", tools.EscapeLine(tools.Excerpt(string(raw), 200))).
				Msg("the MCP server describes a tool wrongly: without a name, it is left out; hints that are not true or false do not count")
		}
		if !ok {
			continue
		}
		repeatable := string(readOnly) == "true" || string(idempotent) == "true"
		earlier, twice := p.known[name] // a worker offers the first one only
		p.known[name] = toolInfo{repeatable && (!twice || earlier.repeatable), bytes.Clone(wire.Get(raw, "outputSchema"))}
		description, _ := wire.Text(wire.Get(raw, "description"))
		list = append(list, wire.JSON(fields{"name": name, "description": description, "inputSchema": wire.Get(raw, "inputSchema"),
			"annotations": fields{"idempotentHint": repeatable}}))
	}
	cursor, _ = wire.Text(wire.Get(result, "nextCursor"))
	p.listed = cursor == ""
	return list, cursor
}

// isHint reports whether a hint of a tool is one, or is not there.
func isHint(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "true", "false"}, string(raw))
}

// toolsListed returns a page of the server's tools as a worker needs it, or the last page with the reading tools; nil if
// nothing changes.
func (p *proxy) toolsListed(r *request, result json.RawMessage) json.RawMessage {
	if wire.Kind(result) != '{' {
		return nil // an error
	}
	list, cursor := p.learn(result, r.firstPage)
	h := p.hosted.Load()
	switch {
	case h == nil && wire.Kind(wire.Get(result, "tools")) == '[':
		return wire.Set(result, wire.Array(list), "tools")
	case h == nil || cursor != "" || !p.offersReading():
		return nil
	}
	list = slices.Collect(wire.Elements(wire.Get(result, "tools")))
	for _, t := range h.reading.List(p.rename) {
		list = append(list, wire.JSON(t))
	}
	return wire.Set(result, wire.Array(list), "tools")
}

// maxPages ends a list whose cursors never end.
const maxPages = 100

// listTools asks the server for its tools.
func (p *proxy) listTools(ctx context.Context, c *connection) error {
	for cursor, page := "", 0; page < maxPages; page++ {
		params := fields{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		p.mu.Lock()
		if p.meta != nil { // without the progress token, which belongs to another request
			meta := wire.ObjectOf(p.meta)
			params["_meta"] = slices.DeleteFunc(meta, func(m wire.Member) bool { return m.Name == "progressToken" }).Text()
		}
		p.mu.Unlock()
		result, err := p.ask(ctx, c, "tools/list", params)
		if err != nil {
			return err
		}
		if _, cursor = p.learn(result, page == 0); cursor == "" {
			return nil
		}
	}
	return nil
}

// learnAgain lists the tools of a new process, if requests wait that it decides on, and
// tells the client if they differ from those of the earlier process. A client without
// reading tools is a worker, which lists them in any case.
func (p *proxy) learnAgain(ctx context.Context, c *connection) error {
	p.mu.Lock()
	before, session := p.known, p.initialize != nil || p.meta != nil
	_, hasTools := p.capabilities["tools"]
	p.mu.Unlock()
	if c.generation == 1 || !session || !hasTools {
		return nil
	}
	if err := p.listTools(ctx, c); err != nil {
		return err
	}
	p.mu.Lock()
	changed := p.hosted.Load() == nil || len(before) > 0 && !slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(p.known)))
	p.mu.Unlock()
	if changed {
		p.toClient(wire.Request("", "notifications/tools/list_changed", nil))
	}
	return nil
}

// outputSchema returns the schema of a tool's structured content; nil if it has none.
func (p *proxy) outputSchema(ctx context.Context, c *connection, tool string) json.RawMessage {
	p.mu.Lock()
	info, ok := p.known[tool]
	listed := p.listed
	p.mu.Unlock()
	if !ok && !listed {
		if err := p.listTools(ctx, c); err != nil {
			p.cfg.Log.Warn().Str("server", p.cfg.Name).Err(err).Msg("cannot list the tools of an MCP server")
		}
		p.mu.Lock()
		info = p.known[tool]
		p.mu.Unlock()
	}
	return info.outputSchema
}

// rename returns the name under which the client sees a reading tool. The server's
// tools keep their names.
func (p *proxy) rename(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if _, taken := p.known[name]; !taken {
			return name
		}
		name = "stevedore_" + name
	}
}

// readingTool returns the reading tool that the client calls by a name.
func (p *proxy) readingTool(name string) (string, bool) {
	for _, tool := range p.hosted.Load().reading.Names() {
		if p.rename(tool) == name {
			return tool, true
		}
	}
	return "", false
}

// links reports whether the client gets content blocks of the type resource_link.
func (p *proxy) links() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.capabilities["resources"]; !ok && p.hosted.Load().host.ResourceTools {
		return false // the client cannot read them
	}
	return artifacts.GetsLinks(p.clientName, cmp.Or(p.version, "0"))
}
