package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
)

// resultOf returns the content as a result. Without images and files it is plain text,
// which models search line by line after it was offloaded.
func (c *connection) resultOf(got *mcp.CallToolResult) *tools.Result {
	out := tools.NewOutput(tools.OutputLimits{})
	var blocks []artifacts.Block
	var failed error
	media, empty := false, true
	type span struct{ from, to int64 }
	spans := map[int]span{} // of the texts in out, by the index of their block
	add := func(text string) {
		if !empty {
			_, _ = out.Write([]byte{'\n'}) // out.Err has the error
		}
		from := out.Size()
		if err := c.copyText(out, text); err != nil && out.Err() == nil {
			failed = err
		}
		spans[len(blocks)] = span{from, out.Size()}
		blocks, empty = append(blocks, artifacts.Block{Type: "text"}), false
	}
	addFile := func(b artifacts.Block) { media, blocks = true, append(blocks, b) }
	for _, block := range got.Content {
		switch b := block.(type) {
		case *mcp.TextContent:
			add(b.Text)
		case *mcp.ImageContent:
			addFile(artifacts.Block{Type: "image", Data: b.Data, MediaType: b.MIMEType})
		case *mcp.AudioContent:
			addFile(artifacts.Block{Type: "audio", Data: b.Data, MediaType: b.MIMEType})
		case *mcp.ResourceLink:
			add(strings.TrimSpace(fmt.Sprintf("[Resource %s: %s %s]", b.URI, b.Name, b.Description)))
		case *mcp.EmbeddedResource:
			switch {
			case b.Resource == nil:
			case b.Resource.Text != "" || len(b.Resource.Blob) == 0:
				add(b.Resource.Text)
			case len(got.Content) == 1 || isKey(string(b.Resource.Blob)): // it is stored as what it is
				add(string(b.Resource.Blob))
			default:
				addFile(artifacts.Block{Type: "file", URI: b.Resource.URI, MediaType: b.Resource.MIMEType, Data: b.Resource.Blob})
			}
		}
	}
	if empty && !media && got.StructuredContent != nil {
		add(structuredText(got.StructuredContent))
	}
	res := &tools.Result{IsError: got.IsError, Output: out}
	switch {
	case failed != nil:
		_ = out.Close()
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the result of the MCP server cannot be read: %v", failed))
	case out.Err() != nil: // the offloader reports it
	case media && out.Size() > maxMessage:
		out.Note(fmt.Sprintf("[The result has %d images or files, which are not shown, because its text is too long.]", len(blocks)-len(spans)))
	case media:
		for i, at := range spans {
			text := make([]byte, at.to-at.from)
			if _, err := out.ReadAt(text, at.from); err == nil || errors.Is(err, io.EOF) {
				blocks[i].Text = string(text)
			}
		}
		if data, err := json.Marshal(blocks); err == nil {
			text, _, _ := out.Text(maxMessage)
			_ = out.Close()
			res = &tools.Result{IsError: got.IsError, ForLLM: text, Blocks: data}
		}
	}
	if res.IsError {
		res.Err = tools.Errorf(tools.CodeToolFailed, "the tool of the MCP server reported an error")
	}
	return res
}
