package offload_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// screenshot returns a PNG that does not compress well.
func screenshot(t *testing.T, width, height int) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, width, height))
	random := rand.New(rand.NewPCG(1, 2))
	for x := range width {
		for y := range height {
			img.SetGray(x, y, color.Gray{Y: uint8(random.Uint32N(256))})
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A picture of a tool that is too large for models is scaled, and its original is an artifact.
// A picture that fits stays as it is, one that is broken becomes a text, and other blocks do not
// change.
func TestPicturesOfTools(t *testing.T) {
	t.Parallel()
	store := mem.New(offload.StoreConfig{})
	o := offload.NewOffloader(store, offload.Config{})
	large, small := screenshot(t, 2400, 1300), screenshot(t, 20, 10)
	encode := base64.StdEncoding.EncodeToString
	blocks := fmt.Sprintf(`[{"type":"text","text":"The page:"},{"type":"image","data":%q,"mimeType":"image/png"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":%q}},`+
		`{"type":"image","data":%q,"mimeType":"image/png"},{"type":"image","data":"@","mimeType":"image/png"},{"type":"odd","x":1}]`, encode(large), encode(small), encode(large[:5000]))
	call := tools.Call{ID: "c1", Session: "s", Tool: "browser"}
	res, err := o.Result(t.Context(), call, tools.Definition{Name: "browser"}, &tools.Result{Blocks: json.RawMessage(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Type, Text string
		Source     struct{ Data []byte }
		X          int
	}
	if err := json.Unmarshal(res.Blocks, &got); err != nil || len(got) != 7 {
		t.Fatalf("%d blocks: %v", len(got), err)
	}
	if got[0].Text != "The page:" || !strings.Contains(got[1].Text, "scaled from 2400 x 1300") || got[6].X != 1 {
		t.Errorf("texts %q, %q, %+v", got[0].Text, got[1].Text, got[6])
	}
	shown, _, err := image.Decode(bytes.NewReader(got[2].Source.Data))
	if err != nil || shown.Bounds().Dx() > 1568 || len(got[2].Source.Data) > 320<<10 {
		t.Errorf("the model gets %d bytes: %v", len(got[2].Source.Data), err)
	}
	if !bytes.Equal(got[3].Source.Data, small) {
		t.Error("a small picture has changed")
	}
	if !strings.Contains(got[4].Text, "cannot be shown: it cannot be decoded") || got[5].Type != "image" {
		t.Errorf("a broken picture is %+v, one without base64 %+v", got[4], got[5])
	}
	fits := json.RawMessage(fmt.Sprintf(`[ {"type":"image", "source":{"data":%q,"media_type":"image/png","type":"base64"}} ]`, encode(small)))
	call.ID = "c2"
	if res, err := o.Result(t.Context(), call, tools.Definition{Name: "browser"}, &tools.Result{Blocks: fits}); err != nil || !bytes.Equal(res.Blocks, fits) {
		t.Errorf("a result whose pictures fit has changed: %.300s, %v", res.Blocks, err)
	}
	_, c, err := offload.NewReader(store, offload.ReaderConfig{}).Open(t.Context(), "s", "c1-picture-2")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if data, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size())); err != nil || !bytes.Equal(data, large) {
		t.Errorf("the original has %d bytes: %v", len(data), err)
	}
}

// A picture that a text has in base64 becomes a block; the artifact has the text as it came. A tool
// that reads artifacts back, a call that wants its result inline, and what only looks like a
// picture stay as they are.
func TestPicturesInTexts(t *testing.T) {
	t.Parallel()
	store := mem.New(offload.StoreConfig{})
	o := offload.NewOffloader(store, offload.Config{})
	picture := base64.StdEncoding.EncodeToString(screenshot(t, 50, 40))
	text := fmt.Sprintf(`{"title":"Login","screenshot":"data:image/png;base64,%s","n":12345678901234567890}`, picture)
	inline := false
	result := func(id, text string, def tools.Definition, inline *bool) *tools.Result {
		t.Helper()
		res, err := o.Result(t.Context(), tools.Call{ID: id, Session: "s", Tool: "browser", Offload: inline}, def, tools.NewToolResult(text))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := result("taken", text, tools.Definition{}, nil)
	var blocks []struct {
		Type, Text string
		Source     struct{ Data string }
	}
	if err := json.Unmarshal(res.Blocks, &blocks); err != nil || len(blocks) != 2 || blocks[1].Source.Data != picture {
		t.Fatalf("the blocks are %.300s: %v", res.Blocks, err)
	}
	if want := `{"title":"Login","screenshot":"[picture 1]","n":12345678901234567890}`; blocks[0].Text != want || res.ForLLM != want {
		t.Errorf("the texts are %q and %q", blocks[0].Text, res.ForLLM)
	}
	_, c, err := offload.NewReader(store, offload.ReaderConfig{}).Open(t.Context(), "s", "taken")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if data, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size())); err != nil || string(data) != text {
		t.Errorf("the artifact has %d bytes, want %d: %v", len(data), len(text), err)
	}
	out := tools.NewOutput(tools.OutputLimits{})
	if _, err := io.WriteString(out, text); err != nil {
		t.Fatal(err)
	}
	out.Note("\n[Exit code: 3]")
	withNote, err := o.Result(t.Context(), tools.Call{ID: "noted", Session: "s", Tool: "shell"}, tools.Definition{}, &tools.Result{Output: out})
	if err != nil || !strings.Contains(string(withNote.Blocks), "[picture 1]") || !strings.Contains(string(withNote.Blocks), "[Exit code: 3]") {
		t.Errorf("the note of a command is lost: %.300s, %v", withNote.Blocks, err)
	}
	for name, kept := range map[string]*tools.Result{
		"reading back": result("read", text, tools.Definition{NoOffload: true}, nil), "inline": result("inline", text, tools.Definition{}, &inline),
		"no picture": result("none", "iVBORw0KGgo"+strings.Repeat("A", 2001)+"!", tools.Definition{}, nil),
	} {
		if kept.Blocks != nil || strings.Contains(kept.ForLLM, "[picture") {
			t.Errorf("%s: %.100s", name, kept.ForLLM)
		}
	}
}
