package offload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"regexp"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// fitPictures makes the pictures among the content blocks of a result fit for models, and reports
// whether it changed any.
func (o *Offloader) fitPictures(ctx context.Context, call tools.Call, blocks []contentBlock) (fitted []contentBlock, changed bool, err error) {
	for i, b := range blocks {
		instead, err := o.fitPicture(ctx, call, i, b)
		switch {
		case err != nil:
			return nil, false, err
		case instead == nil:
			fitted = append(fitted, b)
		default:
			fitted, changed = append(fitted, instead...), true
		}
	}
	return fitted, changed, nil
}

// fitPicture returns what replaces the block i, or nil if it stays. A picture that is larger than
// models take is scaled, and its original becomes an artifact. One that cannot be decoded becomes a
// text, because providers reject each later request that has it. One in the form of MCP gets that
// of Anthropic's API.
func (o *Offloader) fitPicture(ctx context.Context, call tools.Call, i int, b contentBlock) (instead []contentBlock, err error) {
	img, isMCP, ok := pictureOf(b.raw)
	if !ok {
		return nil, nil
	}
	original := img.Data
	if err := img.shrink(); err != nil {
		img.Data, img.Note = nil, err.Error()
	}
	var values []any
	if img.Note != "" {
		text, err := o.storePicture(ctx, call, i, img, original)
		if err != nil {
			return nil, err
		}
		values = append(values, map[string]string{"type": "text", "text": text})
	} else if !isMCP {
		return nil, nil
	}
	if img.Data != nil {
		values = append(values, img.Block())
	}
	return newBlocks(values)
}

// newBlocks returns content blocks of this program.
func newBlocks(values []any) ([]contentBlock, error) {
	data, err := jsonform.Encode(values)
	if err != nil {
		return nil, err
	}
	return parseBlocks(data)
}

// encodeBlocks returns the JSON array of blocks.
func encodeBlocks(blocks []contentBlock) (json.RawMessage, error) {
	raws := make([]json.RawMessage, len(blocks))
	for i, b := range blocks {
		raws[i] = b.raw
	}
	return jsonform.Encode(raws)
}

// storePicture stores the original of the block i, and returns what the model reads about it.
func (o *Offloader) storePicture(ctx context.Context, call tools.Call, i int, img *Image, original []byte) (text string, err error) {
	call.ID = fmt.Sprintf("%s-picture-%d", call.IDToken(), i+1)
	img.Record, err = o.Attach(ctx, call, sectionOf(string(original)))
	if errors.Is(err, ErrQuota) {
		return fmt.Sprintf("The original of a picture was not kept: %v.", err), nil
	}
	return img.Text(), err
}

// encodedPicture finds a PNG, JPEG, GIF or WebP in base64. The shortest that is worth a block has
// 1,000 characters.
var encodedPicture = regexp.MustCompile(`(?:data:image/[a-z]+;base64,)?((?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/]{1000,}={0,2})`)

// pictureStarts are what such a picture begins with. Most texts have none of them, and the search
// for a fixed text is much faster.
var pictureStarts = []string{"iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"}

// maxTaken is how many pictures takePictures takes.
const maxTaken = 5

// takePictures makes blocks of the pictures that a text has in base64, which models cannot read,
// and reports whether there are any. It leaves texts of more than limit bytes, of which a model
// gets a reference. The content that is stored stays as it is.
func (b *body) takePictures(limit int) bool {
	if b.blocks != nil || !b.inMemory || len(b.text) > limit ||
		!slices.ContainsFunc(pictureStarts, func(start string) bool { return strings.Contains(b.text, start) }) {
		return false
	}
	var found []any
	text := encodedPicture.ReplaceAllStringFunc(b.text, func(match string) string {
		encoded := encodedPicture.FindStringSubmatch(match)[1]
		data, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(found) == maxTaken {
			return match
		}
		_, format, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return match
		}
		found = append(found, (&Image{MediaType: "image/" + format, Data: data}).Block())
		return fmt.Sprintf("[picture %d]", len(found))
	})
	if found == nil {
		return false
	}
	blocks, err := newBlocks(append([]any{map[string]string{"type": "text", "text": text + b.note}}, found...))
	if err != nil {
		return false
	}
	b.text, b.blocks = text, blocks
	return true
}

// pictureOf reads a block that is a picture, in the form of Anthropic's API or of MCP.
func pictureOf(raw json.RawMessage) (img *Image, isMCP, ok bool) {
	var b struct {
		Type     string `json:"type"`
		MimeType string `json:"mimeType"`
		Data     []byte `json:"data"`
		Source   struct {
			MediaType string `json:"media_type"`
			Data      []byte `json:"data"`
		} `json:"source"`
	}
	if json.Unmarshal(raw, &b) != nil || b.Type != "image" {
		return nil, false, false
	}
	img, isMCP = &Image{MediaType: b.Source.MediaType, Data: b.Source.Data}, b.MimeType != ""
	if isMCP {
		img.MediaType, img.Data = b.MimeType, b.Data
	}
	return img, isMCP, len(img.Data) > 0 && slices.Contains(imageTypes, img.MediaType)
}
