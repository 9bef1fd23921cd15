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
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kovidgoyal/imaging"
	_ "golang.org/x/image/webp" // decodes WebP

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
	"github.com/stevedore-bus/stevedore/tools/limited"
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
	// MaxPixels bounds the pixels of all pictures of one result that are decoded. A hostile picture
	// of 4 KB takes a third of a second.
	MaxPixels = 256 << 20
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
	img, left := &Image{Record: rec, MediaType: rec.MediaType, Data: data}, MaxPixels
	if err := img.shrink(ctx, r.cfg.Pool, session, &left); err != nil {
		img.Data, img.Note = nil, err.Error()
	}
	return img, nil
}

// shrink scales the image down if it does not fit. It decodes every image, because a provider
// rejects each later request of a conversation that has a broken one. left is how many pixels may
// still be decoded.
func (i *Image) shrink(ctx context.Context, pool *limited.Pool, session string, left *int) error {
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
	if *left -= cfg.Width * cfg.Height; *left < 0 {
		return fmt.Errorf("the pictures of the result have more than %d pixels together", MaxPixels)
	}
	cpu := limited.Picture.CPU(int64(len(i.Data)))
	return pool.Do(ctx, tools.TokenOf(session), cpu, func(ctx context.Context) error {
		command := pool.Command(limited.Picture)
		if len(command) == 0 {
			return i.scale()
		}
		out, err := limited.Ask[*Image](ctx, command, pictureRequest{i.Record.MediaType, cpu}, bytes.NewReader(i.Data))
		switch reached, late := errors.AsType[limited.Reached](err); {
		case errors.Is(err, limited.ErrMemory):
			return errors.New("to decode it needs too much memory; scale it down with a tool first")
		case late:
			return fmt.Errorf("to decode it takes too long: %w; scale it down with a tool first", reached)
		case err != nil:
			return err
		case out.Data != nil:
			i.Data, i.MediaType, i.Note = out.Data, out.MediaType, out.Note
		}
		return nil
	})
}

// pictureRequest asks ServePicture to scale a picture, whose bytes follow.
type pictureRequest struct {
	MediaType string        `json:"media_type"` // of the record
	CPU       time.Duration `json:"cpu"`
}

// ServePicture scales one picture down for the process that started this one with the command line
// of its limited.Pool. It bounds the process, so it is for a main that does nothing else.
func ServePicture(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := limited.Serve(limited.Picture); err != nil {
		return err
	}
	return limited.Answer(stdin, stdout, func(req pictureRequest, input io.Reader) (*Image, error) {
		_, cancel := limited.Within(ctx, req.CPU) // of which the decoder does not look at the context
		defer cancel()
		data, err := io.ReadAll(input)
		if err != nil {
			return nil, err
		}
		img := &Image{Data: data}
		img.Record.MediaType = req.MediaType
		if err := img.scale(); err != nil || img.Note == "" {
			return &Image{}, err
		}
		return img, nil
	})
}

// scaling lets one image at a time be in the memory of a process.
var scaling sync.Mutex

// scale decodes the image, and scales it down if it does not fit.
func (i *Image) scale() error {
	scaling.Lock()
	defer scaling.Unlock()
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
		return fmt.Sprintf("The artifact '%s' is %s, which cannot be shown: %s.", i.Record.ID, what, i.Note)
	case i.Note != "":
		what += ", " + i.Note
	}
	return fmt.Sprintf("The artifact '%s' is this image: %s.", i.Record.ID, what)
}

// Block returns the image as a content block of Anthropic's API.
func (i *Image) Block() map[string]any {
	return map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": i.MediaType,
		"data": base64.StdEncoding.EncodeToString(i.Data)}}
}

// result returns the result with the image as a content block.
func (i *Image) result() *tools.Result {
	res := tools.SilentResult(i.Text())
	if i.Data == nil {
		return res
	}
	res.Blocks, _ = json.Marshal([]any{map[string]any{"type": "text", "text": i.Text()}, i.Block()}) // cannot fail
	return res
}

// fitPictures makes the pictures among the content blocks of a result fit for models, and reports
// whether it changed any.
func (o *Offloader) fitPictures(ctx context.Context, call tools.Call, blocks []contentBlock) (fitted []contentBlock, changed bool, err error) {
	left := MaxPixels
	for i, b := range blocks {
		instead, err := o.fitPicture(ctx, call, i, b, &left)
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
func (o *Offloader) fitPicture(ctx context.Context, call tools.Call, i int, b contentBlock, left *int) (instead []contentBlock, err error) {
	img, isMCP, ok := pictureOf(b.raw)
	if !ok {
		return nil, nil
	}
	original := img.Data
	if err := img.shrink(ctx, o.cfg.Pool, call.Session, left); err != nil {
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

// ScalePicture returns the picture that replaces the content block i of a result, if it is larger
// than models take. It stores the original as an artifact, of which the text tells the model. img
// is nil for any other block, also for a picture that cannot be decoded. left is what remains of
// MaxPixels for the result.
func (o *Offloader) ScalePicture(ctx context.Context, call tools.Call, i int, block json.RawMessage, left *int) (img *Image, text string, err error) {
	img, _, ok := pictureOf(block)
	if !ok {
		return nil, "", nil
	}
	original := img.Data
	if img.shrink(ctx, o.cfg.Pool, call.Session, left) != nil || img.Note == "" {
		return nil, "", nil
	}
	text, err = o.storePicture(ctx, call, i, img, original)
	return img, text, err
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
var encodedPicture = lazyregexp.New(`(?:data:image/[a-z]+;base64,)?((?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/]{1000,}={0,2})`)

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
		_, format, err := stdimage.DecodeConfig(bytes.NewReader(data))
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
