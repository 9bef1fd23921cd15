package agent

import (
	"encoding/json"
	"errors"

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
			count += len(picturesOf(b))
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
			if old > 0 {
				b, old = replacePictures(b, old)
			}
			out[i].Content = append(out[i].Content, b)
		}
	}
	return out
}

// picturesOf returns the places of the pictures among the blocks of a tool_result, or one place for a
// block that is a picture.
func picturesOf(b Block) (places []int) {
	if b.Type == TypeImage {
		return []int{0}
	}
	if b.Type != TypeToolResult || len(b.Content) == 0 || b.Content[0] != '[' {
		return nil
	}
	var blocks []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b.Content, &blocks) != nil {
		return nil
	}
	for i, inner := range blocks {
		if inner.Type == TypeImage {
			places = append(places, i)
		}
	}
	return places
}

// replacePictures replaces up to old pictures of a block, and returns how many are left to replace.
func replacePictures(b Block, old int) (Block, int) {
	places := picturesOf(b)
	if len(places) == 0 {
		return b, old
	}
	if b.Type == TypeImage {
		return oldPicture, old - 1
	}
	var blocks []json.RawMessage
	text, err := oldPicture.MarshalJSON()
	if err = errors.Join(err, json.Unmarshal(b.Content, &blocks)); err != nil {
		return b, old // impossible: picturesOf has read it
	}
	for _, i := range places[:min(old, len(places))] {
		blocks[i] = text
	}
	content, err := jsonform.Encode(blocks)
	if err != nil {
		return b, old
	}
	return Block{Type: TypeToolResult, ToolUseID: b.ToolUseID, Content: content, IsError: b.IsError}, old - min(old, len(places))
}
