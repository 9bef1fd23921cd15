package offload

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	stdimage "image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// photo returns a picture that compresses as badly as one of a camera.
func photo(t *testing.T, width, height int) []byte {
	t.Helper()
	img, noise := stdimage.NewRGBA(stdimage.Rect(0, 0, width, height)), rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(i/width + noise.IntN(64))
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// screenshot returns a large PNG of few colours on a transparent ground.
func screenshot(t *testing.T, width, height int) []byte {
	t.Helper()
	img := stdimage.NewNRGBA(stdimage.Rect(0, 0, width, height))
	for x := range width {
		for y := height / 3; y < height/2; y++ {
			img.Set(x, y, color.NRGBA{R: byte(x / 100), A: 255})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// withSize returns a PNG whose header states another size.
func withSize(data []byte, width, height uint32) []byte {
	data = slices.Clone(data)
	binary.BigEndian.PutUint32(data[16:], width)
	binary.BigEndian.PutUint32(data[20:], height)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

// turned returns a JPEG with an EXIF header that says that the camera lay on its side.
func turned(data []byte) []byte {
	exif := "Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	head := append([]byte{0xFF, 0xD8, 0xFF, 0xE1, 0, byte(len(exif) + 2)}, exif...)
	return append(head, data[2:]...)
}

func TestLargeImagesAreScaled(t *testing.T) {
	slow.Test(t)
	store := newFakeStore(StoreConfig{})
	large := screenshot(t, 3000, 2000)
	shot := photo(t, 3000, 1500)
	for id, data := range map[string][]byte{
		"photo": shot, "screenshot": large, "turned": turned(shot),
		"a bomb": withSize(large, 20_000, 20_000), "cut": shot[:len(shot)/2], "no size": withSize(large, 0, 0),
		"huge": append(slices.Clone(large), make([]byte, maxImageFile)...),
	} {
		rec := Record{Artifact: tools.Artifact{ID: tools.TokenOf(id)}, Session: "s"}
		if _, err := store.Put(t.Context(), rec, bytes.NewReader(data), summarize(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(NewReader(store, ReaderConfig{}).Tools()...); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]struct {
		media string
		size  stdimage.Point
		note  string
	}{
		"photo":      {"image/jpeg", stdimage.Pt(2, 1), "scaled from 3000 x 1500 to "},
		"turned":     {"image/jpeg", stdimage.Pt(1, 2), "scaled from 1500 x 3000 to "},
		"screenshot": {"image/png", stdimage.Pt(3, 2), "scaled from 3000 x 2000 to 1568 x 1045 pixels"},
		"a bomb":     {note: "too many pixels: 20000 x 20000"},
		"cut":        {note: "cannot be decoded"},
		"no size":    {note: "cannot be shown"},
		"huge":       {note: "larger than 20 MiB"},
	} {
		args, _ := json.Marshal(map[string]string{"artifact_id": tools.TokenOf(id)})
		res := registry.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: ToolGet, Args: args}, nil)
		if res.IsError || !strings.Contains(res.ForLLM, want.note) || len(res.ForLLM) > 300 {
			t.Errorf("%s: %+v, want %q", id, res, want.note)
			continue
		}
		if want.media == "" {
			if res.Blocks != nil {
				t.Errorf("%s: blocks %.200s", id, res.Blocks)
			}
			continue
		}
		var blocks []struct {
			Source struct {
				MediaType string `json:"media_type"`
				Data      string
			}
		}
		if err := json.Unmarshal(res.Blocks, &blocks); err != nil || len(blocks) != 2 {
			t.Errorf("%s: blocks %.200s, %v", id, res.Blocks, err)
			continue
		}
		data, _ := base64.StdEncoding.DecodeString(blocks[1].Source.Data)
		cfg, _, err := stdimage.DecodeConfig(bytes.NewReader(data))
		if err != nil || blocks[1].Source.MediaType != want.media || len(data) > maxImage || max(cfg.Width, cfg.Height) > maxEdge {
			t.Errorf("%s: %d bytes of %s, %d x %d, %v", id, len(data), blocks[1].Source.MediaType, cfg.Width, cfg.Height, err)
		}
		if wide, high := cfg.Width*want.size.Y, cfg.Height*want.size.X; max(wide, high)-min(wide, high) > 8 {
			t.Errorf("%s: %d x %d has not the form %v", id, cfg.Width, cfg.Height, want.size)
		}
	}
}

// A result with many pictures of a few bytes that decode to millions of pixels costs little.
func TestPixelsOfAResult(t *testing.T) {
	bomb := map[string]any{"type": "image", "mimeType": "image/png", "data": withSize(screenshot(t, 10, 10), 5_000, 6_000)}
	small := map[string]any{"type": "image", "mimeType": "image/png", "data": screenshot(t, 10, 10)}
	blocks, err := json.Marshal(append(slices.Repeat([]any{bomb}, 12), small))
	if err != nil {
		t.Fatal(err)
	}
	res := mustOffload(t, NewOffloader(newFakeStore(StoreConfig{}), Config{}), aCall, &tools.Result{Blocks: blocks})
	for text, want := range map[string]int{"it cannot be decoded": 8, "the pictures of the result have more than 268435456 pixels together": 5} {
		if got := strings.Count(string(res.Blocks), text); got != want {
			t.Errorf("%d pictures say %q, want %d: %.500s", got, text, want, res.Blocks)
		}
	}
}
