package wrap

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// Count is what a client got for a call of a tool or a resource, in characters of text.
type Count struct {
	Client string // the name that it gives itself
	Tool   string // the one whose result it is; "resource" for a resource
	Whole  int64  // of the result of the server
	Shown  int64  // of what the client got for it
	Read   int64  // of a page of a stored result
}

// count reports the answer to a request whose result is whole.
func (p *proxy) count(r *request, whole, shown json.RawMessage) {
	if r.Method == "tasks/get" {
		whole, shown = wire.Get(whole, "result"), wire.Get(shown, "result")
	}
	p.report(r, Count{Tool: r.tool, Whole: textChars(whole), Shown: textChars(shown)})
}

// countRead reports the answer of a reading tool, for the tool whose result it read.
func (p *proxy) countRead(ctx context.Context, r *request, shown json.RawMessage) {
	h, args, tool := p.hosted.Load(), wire.Get(r.Params, "arguments"), r.tool
	if r.uri != "" {
		_, args = artifacts.ParseRead(r.uri)
	}
	if h == nil || p.cfg.Count == nil {
		return
	}
	if rec, err := h.reader.Record(ctx, p.cfg.session, artifacts.IDIn(args)); err == nil {
		tool = rec.Metadata["tool_name"]
	}
	p.report(r, Count{Tool: tool, Read: textChars(shown)})
}

func (p *proxy) report(r *request, c Count) {
	if p.cfg.Count == nil || c.Whole+c.Shown+c.Read == 0 || !slices.Contains([]string{"tools/call", "resources/read", "tasks/result", "tasks/get"}, r.Method) {
		return
	}
	p.mu.Lock()
	c.Client = p.clientName
	p.mu.Unlock()
	c.Tool = cmp.Or(c.Tool, "resource")
	p.cfg.Count(c)
}

// textChars is the length of the texts and files of a result, or else of its structured content.
func textChars(result json.RawMessage) (n int64) {
	for raw := range wire.Elements(wire.Get(result, "content")) {
		b, _ := blockOf(0, raw)
		n += b.size
	}
	for raw := range wire.Elements(wire.Get(result, "contents")) {
		b, _ := resourceOf(0, raw)
		n += b.size
	}
	if n == 0 {
		n = int64(utf8.RuneCount(wire.Get(result, "structuredContent")))
	}
	return n
}
