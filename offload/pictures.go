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
// whether it changed any. One that is larger than models take is scaled, and its original becomes an
// artifact. One that cannot be decoded becomes a text, because providers reject each later request
// that has it. Pictures in the form of MCP get that of Anthropic's API.
func (o *Offloader) fitPictures(ctx context.Context, call tools.Call, blocks []contentBlock) (fitted []contentBlock, changed bool, err error) {
	for i, b := range blocks {
		img, isMCP, ok := pictureOf(b.raw)
		if !ok {
			fitted = append(fitted, b)
			continue
		}
		original := img.Data
		if err := img.shrink(); err != nil {
			img.Data, img.Note = nil, err.Error()
		}
		if img.Note == "" && !isMCP {
			fitted = append(fitted, b)
			continue
		}
		changed = true
		if img.Note != "" {
			text, err := o.storePicture(ctx, call, i, img, original)
			if err != nil {
				return nil, false, err
			}
			fitted = append(fitted, textBlock(text))
		}
		if img.Data != nil {
			fitted = append(fitted, imageBlock(img))
		}
	}
	return fitted, changed, nil
}

func textBlock(text string) contentBlock {
	raw, _ := jsonform.Encode(map[string]string{"type": "text", "text": text}) // every string can be encoded
	return contentBlock{raw: raw, text: text}
}

func imageBlock(img *Image) contentBlock {
	raw, _ := json.Marshal(img.Block()) // base64 can be encoded
	return parseBlock(raw)
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
		found = append(found, imageBlock(&Image{MediaType: "image/" + format, Data: data}))
		return fmt.Sprintf("[picture %d]", len(found))
	})
	if found == nil {
		return false
	}
	b.text, b.blocks = text, append([]contentBlock{textBlock(text + b.note)}, found...)
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
