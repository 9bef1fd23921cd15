package artifacts

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Tools runs the reading tools.
type Tools struct {
	registry *tools.Registry
}

// NewTools returns the reading tools of reader.
func NewTools(reader *offload.Reader) (*Tools, error) {
	t := &Tools{registry: tools.NewRegistry(zerolog.Nop())}
	return t, t.registry.Register(reader.Tools()...)
}

// List returns the definitions under the names that rename returns.
func (t *Tools) List(rename func(string) string) (list []*mcp.Tool) {
	for _, def := range t.registry.Definitions() {
		list = append(list, &mcp.Tool{
			Name: rename(def.Name), Description: Rename(def.Description, rename), InputSchema: def.Parameters,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(false)},
		})
	}
	return list
}

// Call runs a tool for a session.
func (t *Tools) Call(ctx context.Context, session, name string, args json.RawMessage) *tools.Result {
	return t.registry.Run(ctx, tools.Call{ID: "mcp", Session: session, Tool: name, Args: args}, nil)
}

// Names are the names of the reading tools.
var Names = []string{offload.ToolGet, offload.ToolLines, offload.ToolGrep, offload.ToolJQ, offload.ToolQuery, offload.ToolInfo}

// Rename replaces the names of the reading tools in a text.
func Rename(text string, rename func(string) string) string {
	var pairs []string
	for _, name := range Names {
		if other := rename(name); other != name {
			pairs = append(pairs, name, other)
		}
	}
	if pairs == nil {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Media returns the images and sounds of a result of a reading tool as content blocks.
func Media(res *tools.Result) (blocks []any) {
	var all []Block
	if len(res.Blocks) == 0 || json.Unmarshal(res.Blocks, &all) != nil {
		return nil
	}
	for _, b := range all {
		if (b.Type == "image" || b.Type == "audio") && b.Data != nil {
			if data, err := b.MCP(); err == nil {
				blocks = append(blocks, data)
			}
		}
	}
	return blocks
}
