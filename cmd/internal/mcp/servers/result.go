package servers

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// resultOf returns the content as a result. Without images and files it is plain text,
// which models search line by line after it was offloaded.
func resultOf(got *mcp.CallToolResult) *tools.Result {
	var blocks []artifacts.Block
	var texts []string
	add := func(text string) {
		texts = append(texts, text)
		blocks = append(blocks, artifacts.Block{Type: "text", Text: text})
	}
	for _, block := range got.Content {
		switch b := block.(type) {
		case *mcp.TextContent:
			add(b.Text)
		case *mcp.ImageContent:
			blocks = append(blocks, artifacts.Block{Type: "image", Data: b.Data, MediaType: b.MIMEType})
		case *mcp.AudioContent:
			blocks = append(blocks, artifacts.Block{Type: "audio", Data: b.Data, MediaType: b.MIMEType})
		case *mcp.ResourceLink:
			add(strings.TrimSpace(fmt.Sprintf("[Resource %s: %s %s]", b.URI, b.Name, b.Description)))
		case *mcp.EmbeddedResource:
			switch {
			case b.Resource == nil:
			case b.Resource.Text != "" || len(b.Resource.Blob) == 0:
				add(b.Resource.Text)
			default: // it is stored as what it is
				add(string(b.Resource.Blob))
			}
		}
	}
	if len(blocks) == 0 && got.StructuredContent != nil {
		add(string(wire.JSON(got.StructuredContent)))
	}
	res := &tools.Result{IsError: got.IsError}
	if len(texts) < len(blocks) {
		res.ForLLM = strings.Join(texts, "\n")
		res.Blocks, _ = json.Marshal(blocks) // blocks do not fail
	} else {
		res.Output = tools.NewOutput(tools.OutputLimits{Memory: wire.MaxMessage})
		_, _ = io.WriteString(res.Output, strings.Join(texts, "\n")) // Output.Err has the error
	}
	if res.IsError {
		res.Err = tools.Errorf(tools.CodeToolFailed, "the tool of the MCP server reported an error")
	}
	return res
}
