package agent

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

const (
	// maxPicturesShown is how many pictures a request has at most. Each is up to 0.4 MB of JSON and
	// about 1,600 tokens, and providers limit both.
	maxPicturesShown = 20
	// picturesAtOnce is how many of the oldest leave a conversation together. The messages before
	// the newest pictures so stay the same for many requests, and in the provider's cache.
	picturesAtOnce = 10
)

// oldPicture replaces a picture. The text beside a picture names its artifact.
var oldPicture = Text("[A picture was here. Only the newest pictures stay in the conversation; if it is an artifact, read it to see it again.]")

// withoutOldPictures returns messages in which the oldest pictures are replaced by a text, if there
// are too many.
func withoutOldPictures(messages []Message) []Message {
	count := 0
	for _, m := range messages {
		for _, b := range m.Content {
			_, found := replacePictures(b, 0)
			count += found
		}
	}
	old := 0
	for count-old > maxPicturesShown {
		old += picturesAtOnce
	}
	if old == 0 {
		return messages
	}
	out := make([]Message, len(messages))
	for i, m := range messages {
		out[i] = Message{Role: m.Role}
		for _, b := range m.Content {
			replaced, found := replacePictures(b, old)
			old -= min(old, found)
			out[i].Content = append(out[i].Content, replaced)
		}
	}
	return out
}

// replacePictures replaces up to old pictures of a block that is one, or of those in a tool_result,
// and returns how many it has found.
func replacePictures(b Block, old int) (replaced Block, found int) {
	if b.Type == TypeImage {
		if old > 0 {
			b = oldPicture
		}
		return b, 1
	}
	var blocks []Block
	if b.Type != TypeToolResult || len(b.Content) == 0 || b.Content[0] != '[' || json.Unmarshal(b.Content, &blocks) != nil {
		return b, 0
	}
	for i, inner := range blocks {
		if inner.Type != TypeImage {
			continue
		}
		if found++; found <= old {
			blocks[i] = oldPicture
		}
	}
	if min(found, old) == 0 {
		return b, found
	}
	content, _ := jsonform.Encode(blocks) // what was decoded does not fail
	return Block{Type: TypeToolResult, ToolUseID: b.ToolUseID, Content: content, IsError: b.IsError}, found
}

// acceptable returns the content blocks of a result as providers accept them. A provider that rejects a block, such as a sound or a
// drawing, rejects each later request of the conversation, too.
func acceptable(content json.RawMessage) json.RawMessage {
	var blocks, out []Block
	err := json.Unmarshal(content, &blocks)
	if err != nil {
		blocks = []Block{Text(string(content))}
	}
	changed := err != nil
	for _, b := range blocks {
		instead, ok := b.acceptable()
		if changed = changed || !ok; !instead.isBlank() {
			out = append(out, instead)
		}
	}
	if !changed && out != nil {
		return content
	}
	if out == nil {
		out = []Block{Text("(no output)")}
	}
	data, _ := jsonform.Encode(out) // what was decoded, and texts, do not fail
	return data
}

// acceptable returns the block, if ok, or the text that replaces it.
func (b Block) acceptable() (instead Block, ok bool) {
	var media struct {
		MimeType string `json:"mimeType"`
		Source   struct {
			Type      string `json:"type"`
			MediaType string `json:"media_type"`
			Data      string `json:"data"`
		} `json:"source"`
	}
	_ = json.Unmarshal(b.raw, &media) // another form has no such fields
	source := media.Source
	switch b.Type {
	case TypeText:
		return b, !b.isBlank()
	case "document", "search_result":
		return b, true
	case TypeImage:
		data, err := base64.StdEncoding.DecodeString(source.Data)
		isPicture := err == nil && len(data) > 0 && slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, source.MediaType)
		if source.Type == "url" || source.Type == "base64" && isPicture {
			return b, true
		}
	case "audio", "video", "file", "image_url", "input_audio":
	default:
		return Text(string(b.raw)), false
	}
	return Text(fmt.Sprintf("[A part of the result is not shown, because models cannot read it: %s, %d bytes of JSON]",
		cmp.Or(media.MimeType, source.MediaType, b.Type), len(b.raw))), false
}

// errorOf returns the tool_result of a call that failed. Anthropic rejects one with other blocks than texts; so a text says that of it.
func errorOf(b Block) Block {
	var blocks []Block
	if json.Unmarshal(b.Content, &blocks) != nil || !slices.ContainsFunc(blocks, func(b Block) bool { return b.Type != TypeText }) {
		return b
	}
	content, _ := jsonform.Encode(append([]Block{Text("The tool failed:")}, blocks...)) // what was decoded does not fail
	return Block{Type: TypeToolResult, ToolUseID: b.ToolUseID, Content: content}
}
