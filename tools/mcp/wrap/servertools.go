package wrap

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// listedTool is a tool of the server.
type listedTool struct {
	Name        string `json:"name"`
	Annotations struct {
		ReadOnly   bool `json:"readOnlyHint"`
		Idempotent bool `json:"idempotentHint"`
	} `json:"annotations"`
	OutputSchema json.RawMessage `json:"outputSchema"`
}

// learn reads a page of the server's tools and returns the array of tools and the
// next cursor.
func (p *proxy) learn(m *wire.Message, firstPage bool) (array wire.Value, cursor string, err error) {
	members, err := m.Members(m.Result, 1000)
	if err != nil {
		return array, "", err
	}
	if v := wire.Find(members, "nextCursor"); v.Kind == '"' {
		if cursor, err = m.Text(v, 64<<10); err != nil {
			return array, "", err
		}
	}
	known := map[string]toolInfo{}
	array = wire.Find(members, "tools")
	scan := m.Elements(array, func(v wire.Value) bool {
		var t listedTool
		if err = m.Decode(v, 4<<20, &t); err == nil {
			known[t.Name] = toolInfo{t.Annotations.ReadOnly || t.Annotations.Idempotent, slices.Clone(t.OutputSchema)}
		}
		return err == nil
	})
	if err == nil {
		err = scan
	}
	if err != nil {
		return array, "", fmt.Errorf("list of tools: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if firstPage {
		p.known = known
	} else {
		maps.Copy(p.known, known)
	}
	p.listed = cursor == ""
	return array, cursor, nil
}

// toolsListed adds the reading tools to the last page of the server's tools.
func (p *proxy) toolsListed(r *request, m *wire.Message) error {
	array, cursor, err := p.learn(m, r.firstPage)
	if err != nil || cursor != "" {
		return err
	}
	empty := true
	if err := m.Elements(array, func(wire.Value) bool { empty = false; return false }); err != nil {
		return err
	}
	added, err := wire.Encode(p.reading.List(p.rename))
	if err != nil {
		return err
	}
	added = added[1 : len(added)-1]
	if !empty {
		added = append([]byte{','}, added...)
	}
	m.Edits = append(m.Edits, wire.Edit{From: array.End - 1, To: array.End - 1, With: added})
	return nil
}

// maxPages ends a list whose cursors never end.
const maxPages = 100

// listTools asks the server for its tools.
func (p *proxy) listTools(ctx context.Context, c *connection) error {
	for cursor, page := "", 0; page < maxPages; page++ {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		p.mu.Lock()
		if p.meta != nil {
			params["_meta"] = withoutToken(p.meta)
		}
		p.mu.Unlock()
		m, err := p.ask(ctx, c, "tools/list", params)
		if err != nil {
			return err
		}
		_, cursor, err = p.learn(m, page == 0)
		m.Close()
		if err != nil || cursor == "" {
			return err
		}
	}
	return nil
}

// withoutToken removes the progress token, which belongs to another request.
func withoutToken(meta json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(meta, &fields) // inspect did it before
	delete(fields, "progressToken")
	return fields
}

// learnAgain lists the tools of a new process, if requests wait that it decides on, and
// tells the client if they differ from those of the earlier process.
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
	changed := len(before) > 0 && !slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(p.known)))
	p.mu.Unlock()
	if changed {
		if m, err := wire.Request("", "notifications/tools/list_changed", nil); err == nil {
			p.toClient(m)
		}
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
