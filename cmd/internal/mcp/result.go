package mcp

import (
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools"
)

// links reports whether the client of a session gets links to artifacts.
func (c *client) links(s *mcp.ServerSession) bool {
	params := s.InitializeParams()
	if params == nil || params.ClientInfo == nil {
		return true // an older client over HTTP, whose name is unknown
	}
	return artifacts.GetsLinks(params.ClientInfo.Name, params.ProtocolVersion)
}

// contentOf returns the text or the blocks of a result, and a link to its artifact if
// the result is only a reference.
func contentOf(session string, event tools.ResultEvent, links bool) *mcp.CallToolResult {
	res := &mcp.CallToolResult{IsError: event.IsError, Content: artifacts.Content(event.Blocks)}
	if res.Content == nil || slices.Contains(res.Content, nil) {
		res.Content = []mcp.Content{&mcp.TextContent{Text: event.ForLLM}}
	}
	if a := event.Artifact; links && a != nil && !a.Inline {
		res.Content = append(res.Content, artifacts.LinkTo(session, *a))
	}
	return res
}
