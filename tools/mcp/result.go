package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools"
)

// resultOf returns the content as a result. Without images and files it is plain text,
// which models search line by line after it was offloaded.
func resultOf(got *mcp.CallToolResult) *tools.Result {
	out := tools.NewOutput(tools.OutputLimits{})
	var blocks []any
	media, empty := false, true
	add := func(text string) {
		if !empty {
			_, _ = out.Write([]byte{'\n'}) // out.Err has the error
		}
		_, _ = out.Write([]byte(text))
		blocks, empty = append(blocks, map[string]string{"type": "text", "text": text}), false
	}
	for _, c := range got.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			add(c.Text)
		case *mcp.ImageContent:
			media = true
			blocks = append(blocks, map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": c.MIMEType, "data": c.Data}})
		case *mcp.AudioContent:
			media = true
			blocks = append(blocks, map[string]any{"type": "audio", "mimeType": c.MIMEType, "data": c.Data})
		case *mcp.ResourceLink:
			add(strings.TrimSpace(fmt.Sprintf("[Resource %s: %s %s]", c.URI, c.Name, c.Description)))
		case *mcp.EmbeddedResource:
			switch {
			case c.Resource == nil:
			case c.Resource.Text != "" || len(c.Resource.Blob) == 0:
				add(c.Resource.Text)
			case len(got.Content) == 1: // a file alone is stored as what it is
				_, _ = out.Write(c.Resource.Blob)
				empty = false
			default:
				media = true
				blocks = append(blocks, map[string]any{"type": "file", "uri": c.Resource.URI, "mimeType": c.Resource.MIMEType, "data": c.Resource.Blob})
			}
		}
	}
	if empty && !media && got.StructuredContent != nil {
		if data, err := json.Marshal(got.StructuredContent); err == nil {
			add(string(data))
		}
	}
	res := &tools.Result{IsError: got.IsError, Output: out}
	if media {
		if data, err := json.Marshal(blocks); err == nil {
			text, _, _ := out.Text(1 << 30)
			_ = out.Close()
			res = &tools.Result{IsError: got.IsError, ForLLM: text, Blocks: data}
		}
	}
	if res.IsError {
		res.Err = tools.Errorf(tools.CodeToolFailed, "the tool of the MCP server reported an error")
	}
	return res
}
