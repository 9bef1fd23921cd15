package offload

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// binaryNotice is the sentence that a model gets instead of bytes that are not text.
func binaryNotice(id, mediaType string, size int64) string {
	how := fmt.Sprintf(`to copy the bytes, call write_file with content={"$artifact":"%s","base64":true} and base64=true, or let the user save the artifact`, id)
	if slices.Contains(imageTypes, mediaType) && size <= maxImage {
		how = fmt.Sprintf("to see it, call %s(artifact_id); %s", ToolGet, how)
	}
	return fmt.Sprintf("The artifact '%s' is %d bytes of %s, %s; %s.", id, size, attribute(mediaType), whyBinary(mediaType), how)
}

// whyBinary says why a content is not shown.
func whyBinary(mediaType string) string {
	if strings.HasPrefix(mediaType, "text/") {
		return "in an encoding other than UTF-8"
	}
	return "which is not text"
}

// readableNotice follows the readable text of an artifact that is not UTF-8.
func readableNotice(rec Record) string {
	if charset := rec.charset(); charset != "" {
		return fmt.Sprintf("[this is the text of %s; the artifact '%s' has the exact bytes]", charset, rec.ID)
	}
	return fmt.Sprintf("[each \\xNN stands for a byte that is not UTF-8; the artifact '%s' has the exact bytes]", rec.ID)
}

// readable returns a text in a charset as UTF-8, with escapes for what is not text.
func readable(text, charset string) string {
	if charset != "" {
		if decoded, err := charsets[charset].NewDecoder().String(text); err == nil {
			return decoded
		}
	}
	return tools.EscapeBytes(text)
}

// imageTypes are the images that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// maxImage is the largest image that a model gets, in bytes. With base64 it fits into a
// result event.
const maxImage = 320 << 10

// image is a page that is shown as an image.
type image struct {
	*Page
	data []byte
}

// imageOf returns the whole image of which a page is a part.
func (r *Reader) imageOf(ctx context.Context, session string, page *Page) (textResult, error) {
	if !slices.Contains(imageTypes, page.MediaType) || page.Size > maxImage {
		return page, nil
	}
	_, c, err := r.Open(ctx, session, page.ArtifactID)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	data, err := readRange(c, 0, c.Size())
	if err != nil {
		return nil, readError(page.ArtifactID, err)
	}
	return &image{page, data}, nil
}

// Text describes the image to models that see only text.
func (i *image) Text() string {
	return fmt.Sprintf("The artifact '%s' is this image: %d bytes of %s.", i.ArtifactID, len(i.data), i.MediaType)
}

// result returns the result with the image as a content block.
func (i *image) result() *tools.Result {
	res := tools.SilentResult(i.Text())
	blocks, err := json.Marshal([]any{
		map[string]any{"type": "text", "text": i.Text()},
		map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": i.MediaType, "data": base64.StdEncoding.EncodeToString(i.data)}},
	})
	if err == nil { // it always is
		res.Blocks = blocks
	}
	return res
}
