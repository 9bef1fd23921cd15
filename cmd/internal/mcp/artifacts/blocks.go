package artifacts

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools"
)

// block is a content block of a result, in the form of chat APIs or of MCP.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
	Source   struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	} `json:"source"`
}

// Content returns the content blocks of a result as MCP has them, and nil in place of one that it does not have.
func Content(raw json.RawMessage) (content []mcp.Content) {
	var blocks []block
	if len(raw) == 0 || json.Unmarshal(raw, &blocks) != nil {
		return nil
	}
	for _, b := range blocks {
		if b.Source.Type == "base64" {
			b.Data, b.MIMEType = b.Source.Data, b.Source.MediaType
		}
		var c mcp.Content
		switch {
		case b.Type == "text":
			c = &mcp.TextContent{Text: b.Text}
		case b.Type == "image" && b.Data != nil:
			c = &mcp.ImageContent{Data: b.Data, MIMEType: b.MIMEType}
		case b.Type == "audio" && b.Data != nil:
			c = &mcp.AudioContent{Data: b.Data, MIMEType: b.MIMEType}
		}
		content = append(content, c)
	}
	return content
}

// Media returns the images and sounds of a result of a reading tool.
func Media(res *tools.Result) (media []any) {
	for _, c := range Content(res.Blocks) {
		if _, text := c.(*mcp.TextContent); c != nil && !text {
			media = append(media, c)
		}
	}
	return media
}
