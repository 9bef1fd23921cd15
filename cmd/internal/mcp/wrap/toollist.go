package wrap

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// toolInfo is what the proxy must know about a tool of the server.
type toolInfo struct {
	repeatable   bool
	outputSchema json.RawMessage
}

// learn reads a page of the server's tools and returns the next cursor.
func (p *proxy) learn(result json.RawMessage, firstPage bool) (cursor string, err error) {
	var list struct {
		Tools []struct {
			Name        string `json:"name"`
			Annotations struct {
				ReadOnly   any `json:"readOnlyHint"` // some servers send strings
				Idempotent any `json:"idempotentHint"`
			} `json:"annotations"`
			OutputSchema json.RawMessage `json:"outputSchema"`
		} `json:"tools"`
		Cursor string `json:"nextCursor"`
	}
	if err := json.Unmarshal(result, &list); err != nil {
		return "", fmt.Errorf("list of tools: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if firstPage {
		p.known = map[string]toolInfo{}
	}
	for _, t := range list.Tools {
		earlier, twice := p.known[t.Name] // a worker offers the first one only
		p.known[t.Name] = toolInfo{(t.Annotations.ReadOnly == true || t.Annotations.Idempotent == true) && (!twice || earlier.repeatable), t.OutputSchema}
	}
	p.listed = list.Cursor == ""
	return list.Cursor, nil
}

// toolsListed adds the reading tools to the last page of the server's tools.
func (p *proxy) toolsListed(r *request, result json.RawMessage) (json.RawMessage, error) {
	if wire.Kind(result) != '{' {
		return nil, nil
	}
	cursor, err := p.learn(result, r.firstPage)
	if err != nil || cursor != "" || p.hosted.Load() == nil || !p.offersReading() {
		return nil, err
	}
	list := slices.Collect(wire.Elements(wire.Get(result, "tools")))
	for _, t := range p.hosted.Load().reading.List(p.rename) {
		list = append(list, wire.JSON(t))
	}
	return wire.Set(result, wire.Array(list), "tools"), nil
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
		if err == nil {
			cursor, err = p.learn(result, page == 0)
		}
		if err != nil || cursor == "" {
			return err
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

// text replaces the names of the reading tools in a text by those that the client sees, or by
// what its model can do without them.
func (p *proxy) text(text string) string {
	return p.withoutTool(p.hosted.Load().reading.Text(text, p.rename))
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
