package offload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	stdimage "image"
	"image/color"
	"slices"
	"sync"

	"github.com/kovidgoyal/imaging"
	_ "golang.org/x/image/webp" // decodes WebP

	"github.com/stevedore-bus/stevedore/tools"
)

// imageTypes are the images that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

const (
	// maxImage is the largest image that a model gets, in bytes. With base64 it fits into a
	// result event.
	maxImage = 320 << 10
	// maxEdge is the longest edge of an image that a model gets, in pixels. Anthropic's models
	// scale larger images down to it:
	// https://docs.anthropic.com/en/docs/build-with-claude/vision
	maxEdge = 1568
	// maxImageFile is the largest stored image that is scaled for a model, in bytes.
	maxImageFile = 20 << 20
	// maxDecoded bounds the memory of a decoded image, in bytes: 32 million pixels of 8 bits.
	maxDecoded = 128 << 20
)

// Image is a picture for a model.
type Image struct {
	Record    Record
	MediaType string
	// Data is nil if a model cannot get the picture.
	Data []byte
	// Note says how Data differs from the artifact, or why there is no Data. It is empty if
	// both are equal.
	Note string
}

// Image returns the picture that an artifact is, scaled down to what models take, or nil if
// the artifact is no picture.
func (r *Reader) Image(ctx context.Context, session, id string) (*Image, error) {
	rec, c, err := r.Open(ctx, session, id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	switch {
	case !slices.Contains(imageTypes, rec.MediaType):
		return nil, nil
	case rec.Size > maxImageFile:
		return &Image{Record: rec, Note: fmt.Sprintf("it is larger than %d MiB", maxImageFile>>20)}, nil
	}
	data, err := readRange(c, 0, c.Size())
	if err != nil {
		return nil, readError(id, err)
	}
	img := &Image{Record: rec, MediaType: rec.MediaType, Data: data}
	if err := img.shrink(); err != nil {
		img.Data, img.Note = nil, err.Error()
	}
	return img, nil
}

// shrinking lets one image at a time be in memory.
var shrinking sync.Mutex

// shrink scales the image down if it does not fit. It decodes every image, because a provider
// rejects each later request of a conversation that has a broken one.
func (i *Image) shrink() error {
	cfg, _, err := stdimage.DecodeConfig(bytes.NewReader(i.Data))
	if err != nil {
		return fmt.Errorf("it cannot be decoded: %w", err)
	}
	perPixel := 4
	if cfg.ColorModel == color.RGBA64Model || cfg.ColorModel == color.NRGBA64Model {
		perPixel = 8
	}
	if cfg.Width > maxDecoded/perPixel/max(cfg.Height, 1) {
		return fmt.Errorf("it has too many pixels: %d x %d", cfg.Width, cfg.Height)
	}
	shrinking.Lock()
	defer shrinking.Unlock()
	whole, err := imaging.Decode(bytes.NewReader(i.Data), imaging.AutoOrientation(true))
	if err != nil {
		return fmt.Errorf("it cannot be decoded: %w", err)
	}
	size := whole.Bounds().Size()
	if len(i.Data) <= maxImage && max(size.X, size.Y) <= maxEdge {
		return nil
	}
	for edge := maxEdge; edge > 100; edge = edge * 3 / 4 {
		whole = imaging.Fit(whole, edge, edge, imaging.Linear)
		if i.encode(whole) {
			i.Note = fmt.Sprintf("scaled from %d x %d to %d x %d pixels", size.X, size.Y, whole.Bounds().Dx(), whole.Bounds().Dy())
			return nil
		}
	}
	return errors.New("it does not become small enough")
}

// encode makes img the data, and reports whether it is small enough. A PNG stays one if
// possible, because the text of a screenshot is sharper so.
func (i *Image) encode(img stdimage.Image) bool {
	var png, jpeg bytes.Buffer
	if i.Record.MediaType != "image/jpeg" && imaging.Encode(&png, img, imaging.PNG) == nil && png.Len() <= maxImage {
		i.Data, i.MediaType = png.Bytes(), "image/png"
		return true
	}
	onWhite := imaging.OverlayCenter(imaging.New(img.Bounds().Dx(), img.Bounds().Dy(), color.White), img, 1) // JPEG has no transparency
	if imaging.Encode(&jpeg, onWhite, imaging.JPEG, imaging.JPEGQuality(80)) == nil && jpeg.Len() <= maxImage {
		i.Data, i.MediaType = jpeg.Bytes(), "image/jpeg"
		return true
	}
	return false
}

// Text describes the image to models that see only text.
func (i *Image) Text() string {
	what := fmt.Sprintf("%d bytes of %s", i.Record.Size, i.Record.MediaType)
	switch {
	case i.Data == nil:
		return fmt.Sprintf("The artifact '%s' is %s, which cannot be shown: %s.", i.Record.ID, what, neutralise(i.Note))
	case i.Note != "":
		what += ", " + i.Note
	}
	return fmt.Sprintf("The artifact '%s' is this image: %s.", i.Record.ID, what)
}

// Block returns the image as a content block of Anthropic's API.
func (i *Image) Block() map[string]any {
	return map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": i.MediaType, "data": base64.StdEncoding.EncodeToString(i.Data)}}
}

// result returns the result with the image as a content block.
func (i *Image) result() *tools.Result {
	res := tools.SilentResult(i.Text())
	if i.Data == nil {
		return res
	}
	blocks, err := json.Marshal([]any{map[string]any{"type": "text", "text": i.Text()}, i.Block()})
	if err == nil { // it always is
		res.Blocks = blocks
	}
	return res
}
