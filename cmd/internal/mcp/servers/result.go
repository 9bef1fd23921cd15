package servers

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wrap"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// maxNote is the longest note, in bytes: the model gets a note whole.
const maxNote = 2000

// resultOf returns the content as a result. Without images and files it is plain text,
// which models search line by line after it was offloaded, or a file.
func resultOf(got *mcp.CallToolResult) *tools.Result {
	var blocks []any
	var texts []string
	var file []byte // the first one, or the structured content; short texts beside it become a note, so that its bytes are stored as they are
	add := func(text string) {
		texts = append(texts, text)
		blocks = append(blocks, &mcp.TextContent{Text: text})
	}
	for _, block := range got.Content {
		switch b := block.(type) {
		case *mcp.TextContent:
			add(b.Text)
		case *mcp.ImageContent:
			blocks = append(blocks, (&offload.Image{Data: b.Data, MediaType: b.MIMEType}).Block())
		case *mcp.AudioContent:
			blocks = append(blocks, &mcp.AudioContent{Data: b.Data, MIMEType: b.MIMEType})
		case *mcp.ResourceLink:
			add(strings.TrimSpace(fmt.Sprintf("[Resource %s: %s %s]", b.URI, b.Name, b.Description)))
		case *mcp.EmbeddedResource:
			switch {
			case b.Resource == nil:
			case b.Resource.Text != "" || len(b.Resource.Blob) == 0:
				add(b.Resource.Text)
			case file == nil:
				file = b.Resource.Blob
			default:
				add(string(b.Resource.Blob))
			}
		}
	}
	// The proxy has made a text of it, whose numbers the SDK does not change.
	if structured, _ := got.StructuredContent.(string); structured != "" && !wrap.Repeated(json.RawMessage(structured), texts) {
		if file == nil {
			file = []byte(structured)
		} else {
			add(structured)
		}
	}
	if file != nil && (len(texts) < len(blocks) || len(strings.Join(texts, "\n")) > maxNote) {
		add(string(file))
		file = nil
	}
	res := &tools.Result{IsError: got.IsError}
	if len(texts) < len(blocks) {
		res.ForLLM = strings.Join(texts, "\n")
		res.Blocks, _ = json.Marshal(blocks) // blocks do not fail
	} else {
		res.Output = tools.NewOutput(tools.OutputLimits{Memory: wire.MaxMessage})
		if text := strings.Join(texts, "\n"); file == nil {
			_, _ = io.WriteString(res.Output, text) // Output.Err has the error, as below
		} else if _, _ = res.Output.Write(file); text != "" {
			res.Output.Note(text)
		}
	}
	if res.IsError {
		res.Err = tools.Errorf(tools.CodeToolFailed, "the tool of the MCP server reported an error")
	}
	return res
}
