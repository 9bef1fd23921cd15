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

// fitPictures makes the pictures among the content blocks of a result fit for models. One that is
// larger than models take is scaled, and its original becomes an artifact. One that cannot be
// decoded becomes a text, because providers reject each later request that has it. It returns the
// blocks and their encoding.
func (o *Offloader) fitPictures(ctx context.Context, call tools.Call, blocks []contentBlock) ([]contentBlock, json.RawMessage, error) {
	var raws []any
	for i, b := range blocks {
		img, ok := pictureOf(b.raw)
		if !ok {
			raws = append(raws, b.raw)
			continue
		}
		original := img.Data
		if err := img.shrink(); err != nil {
			img.Data, img.Note = nil, err.Error()
		}
		if img.Note != "" {
			text, err := o.storePicture(ctx, call, i, img, original)
			if err != nil {
				return nil, nil, err
			}
			raws = append(raws, map[string]string{"type": "text", "text": text})
		}
		if img.Data != nil {
			raws = append(raws, img.Block())
		}
	}
	all, err := jsonform.Encode(raws)
	if err != nil {
		return nil, nil, err
	}
	fitted, err := parseBlocks(all)
	return fitted, all, err
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
	var found []contentBlock
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
		raw, err := json.Marshal((&Image{MediaType: "image/" + format, Data: data}).Block())
		if err != nil {
			return match
		}
		found = append(found, contentBlock{raw: raw, media: true})
		return fmt.Sprintf("[picture %d]", len(found))
	})
	if found == nil {
		return false
	}
	raw, err := jsonform.Encode(map[string]string{"type": "text", "text": text})
	if err != nil {
		return false
	}
	b.text, b.blocks = text, append([]contentBlock{{raw: raw, text: text}}, found...)
	return true
}

// pictureOf reads a block that is a picture, in the form of Anthropic's API or of MCP.
func pictureOf(raw json.RawMessage) (*Image, bool) {
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
		return nil, false
	}
	img := &Image{MediaType: b.MimeType + b.Source.MediaType, Data: slices.Concat(b.Data, b.Source.Data)}
	return img, len(img.Data) > 0 && slices.Contains(imageTypes, img.MediaType)
}
