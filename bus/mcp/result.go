package mcp

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
)

// linksSince is the first revision with content blocks of the type resource_link.
const linksSince = "2025-06-18"

// result returns a result as content blocks.
func (c *client) result(r *mcp.CallToolRequest, event tools.ResultEvent) *mcp.CallToolResult {
	res := contentOf(c.session, event)
	if params := r.Session.InitializeParams(); params != nil && params.ProtocolVersion != "" && params.ProtocolVersion < linksSince {
		if n := len(res.Content); n > 0 {
			if _, ok := res.Content[n-1].(*mcp.ResourceLink); ok {
				res.Content = res.Content[:n-1]
			}
		}
	}
	return res
}

// contentOf returns the text or the blocks of a result, and a link to its artifact if
// the result is only a reference.
func contentOf(session string, event tools.ResultEvent) *mcp.CallToolResult {
	res := &mcp.CallToolResult{IsError: event.IsError, Content: contentBlocks(event.Blocks)}
	if res.Content == nil {
		res.Content = []mcp.Content{&mcp.TextContent{Text: event.ForLLM}}
	}
	if a := event.Artifact; a != nil && !a.Inline {
		link := artifacts.LinkTo(session, *a)
		res.Content = append(res.Content, &mcp.ResourceLink{URI: link.URI, Name: link.Name, Description: link.Description, MIMEType: link.MIMEType, Size: &a.Size})
	}
	return res
}

// contentBlocks converts the blocks of a chat API or of MCP. It returns nil if there is
// no block, or one that MCP does not have.
func contentBlocks(raw json.RawMessage) (content []mcp.Content) {
	var blocks []artifacts.Block
	if len(raw) == 0 || json.Unmarshal(raw, &blocks) != nil {
		return nil
	}
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			content = append(content, &mcp.TextContent{Text: b.Text})
		case b.Type == "image" && b.Data != nil:
			content = append(content, &mcp.ImageContent{Data: b.Data, MIMEType: b.MediaType})
		case b.Type == "audio" && b.Data != nil:
			content = append(content, &mcp.AudioContent{Data: b.Data, MIMEType: b.MediaType})
		default:
			return nil
		}
	}
	return content
}
