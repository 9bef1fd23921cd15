package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxFiles is how many files a prompt may have.
	maxFiles = 20
	// maxPictures bounds the pictures of a prompt, in bytes. The entry of the log that has
	// them must fit into a message of the bus.
	maxPictures = 480 << 10
)

// promptBlocks returns the blocks of a prompt: the pictures among the user's files, and the
// text with a reference to each file. A picture that does not fit has only its reference.
func (c ToolsConfig) promptBlocks(ctx context.Context, call tools.Call, in agentArgs) ([]Block, error) {
	switch {
	case len(in.Files) == 0:
		return []Block{Text(in.Prompt)}, nil
	case c.Files == nil:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "this worker has no store for files")
	case len(in.Files) > maxFiles:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the prompt has %d files; at most %d are allowed", len(in.Files), maxFiles)
	}
	var pictures []Block
	text, left := in.Prompt, maxPictures
	for _, id := range in.Files {
		rec, err := c.Files.Record(ctx, call.SessionToken(), id)
		if err != nil {
			return nil, err
		}
		image, err := c.Files.Image(ctx, call.SessionToken(), id)
		if err != nil {
			return nil, err
		}
		if image == nil || image.Data == nil || len(image.Data) > left {
			text += "\n\nThe user sent this file:\n" + strings.Replace(offload.Reference(rec), "The result was", "It was", 1)
			continue
		}
		left -= len(image.Data)
		pictures = append(pictures, blockOf(image.Block()))
		text += fmt.Sprintf("\n\nThe user sent the picture %q, which you see above. %s", tools.Excerpt(rec.Metadata["action_name"], 100), image.Text())
	}
	return append(pictures, Text(strings.TrimSpace(text))), nil
}

// blockOf returns a block of any type whose fields are texts.
func blockOf(fields map[string]any) (b Block) {
	data, _ := json.Marshal(fields) // texts do not fail
	_ = json.Unmarshal(data, &b)
	return b
}
