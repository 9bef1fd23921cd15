package offload

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// contentBlock is a part of a message, as the chat APIs and MCP define them.
type contentBlock struct {
	raw   json.RawMessage
	text  string // the text for a model; of media only a description
	media bool   // an image, a sound or a file
}

// parseBlocks parses an array of content blocks. It accepts any value: the text of
// a block that it does not know is the block's JSON.
func parseBlocks(data json.RawMessage) ([]contentBlock, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return nil, fmt.Errorf("content blocks: want a JSON array: %w", err)
	}
	blocks := make([]contentBlock, len(raws))
	for i, raw := range raws {
		blocks[i] = parseBlock(raw)
	}
	return blocks, nil
}

func parseBlock(raw json.RawMessage) contentBlock {
	var b struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		MimeType string  `json:"mimeType"`
		Source   struct {
			MediaType string `json:"media_type"`
		} `json:"source"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return contentBlock{raw: raw, text: string(raw)}
	}
	switch b.Type {
	case "text":
		if b.Text != nil {
			return contentBlock{raw: raw, text: *b.Text}
		}
	case "image", "audio", "video", "document", "file", "image_url", "input_audio":
		kind := b.Type
		if media := b.MimeType + b.Source.MediaType; media != "" {
			kind += ", " + tools.Excerpt(media, 80)
		}
		return contentBlock{raw: raw, text: fmt.Sprintf("[%s, %d bytes of JSON]", kind, len(raw)), media: true}
	}
	return contentBlock{raw: raw, text: string(raw)}
}

// blocksText returns blocks as plain text.
func blocksText(blocks []contentBlock) string {
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.text
	}
	return strings.Join(texts, "\n")
}

// keepMedia returns the reference as a block, and the media that fit into left
// bytes of JSON. A note in the reference names media that do not fit. If no media
// remain, the blocks are nil.
func keepMedia(blocks []contentBlock, reference string, left int) (json.RawMessage, string) {
	var kept []any
	var dropped []string
	left -= jsonLen(reference) + 64
	for _, b := range blocks {
		switch n := len(b.raw) + 1; {
		case !b.media:
		case n <= left:
			kept = append(kept, b.raw)
			left -= n
		default:
			dropped = append(dropped, b.text)
		}
	}
	if len(dropped) > 0 {
		reference += fmt.Sprintf("\nNot shown, but in the artifact: %s", tools.Excerpt(strings.Join(dropped, " "), 400))
	}
	if kept == nil {
		return nil, reference
	}
	all, err := jsonform.Encode(append([]any{map[string]string{"type": "text", "text": reference}}, kept...))
	if err != nil { // impossible: the blocks were parsed
		return nil, reference
	}
	return all, reference
}
