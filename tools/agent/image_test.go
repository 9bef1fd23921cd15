package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A model that reads an artifact that is an image gets the image itself.
func TestModelSeesImages(t *testing.T) {
	s := newStage(t)
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 9, 9))); err != nil {
		t.Fatal(err)
	}
	picture := file.String()
	rec := offload.Record{Artifact: tools.Artifact{ID: "png", Type: offload.TypeBinary, MediaType: "image/png"}, Session: "s"}
	if _, err := s.store.Put(t.Context(), rec, strings.NewReader(picture), nil); err != nil {
		t.Fatal(err)
	}
	model := &recorder{Provider: parseScript(t, asks(offload.ToolGet, `{"artifact_id":"png"}`), `{"text":"I see it."}`)}
	run(t, s.agent(model, agent.Config{}), "s", "r", "look")
	var blocks []struct {
		Type   string
		Source struct {
			MediaType string `json:"media_type"`
			Data      string
		}
	}
	messages := model.requests[1].Messages
	result := messages[len(messages)-1].Content[0]
	if err := json.Unmarshal(result.Content, &blocks); err != nil || len(blocks) != 2 {
		t.Fatalf("the result of the call is %s, %v", result.Content, err)
	}
	if got := blocks[1]; got.Type != "image" || got.Source.MediaType != "image/png" || got.Source.Data != base64.StdEncoding.EncodeToString([]byte(picture)) {
		t.Errorf("the image is %+v", got)
	}
}

// Of many pictures, only the newest stay in the requests; the oldest leave them ten at a time, so
// that the start of a request stays the same as long as possible.
func TestOldPicturesLeaveTheConversation(t *testing.T) {
	s := newStage(t)
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 9, 9))); err != nil {
		t.Fatal(err)
	}
	rec := offload.Record{Artifact: tools.Artifact{ID: "png", Type: offload.TypeBinary, MediaType: "image/png"}, Session: "s"}
	if _, err := s.store.Put(t.Context(), rec, &file, nil); err != nil {
		t.Fatal(err)
	}
	var script []string
	for range 32 {
		script = append(script, asks(offload.ToolGet, `{"artifact_id":"png"}`))
	}
	model := &recorder{Provider: parseScript(t, append(script, `{"text":"Done."}`)...)}
	run(t, s.agent(model, agent.Config{}), "s", "r", "look")
	for i, req := range model.requests {
		data, err := json.Marshal(req.Messages)
		if err != nil {
			t.Fatal(err)
		}
		want := i // each request has the picture of one more call
		for want > 20 {
			want -= 10
		}
		shown, left := strings.Count(string(data), `"type":"image"`), strings.Count(string(data), "[A picture was here.")
		if shown != want || shown+left != i {
			t.Errorf("request %d has %d pictures and %d replaced ones, want %d of %d", i, shown, left, want, i)
		}
		if last := req.Messages[len(req.Messages)-1].Content[0]; i > 0 && !strings.Contains(string(last.Content), `"type":"image"`) {
			t.Errorf("request %d does not have the newest picture", i)
		}
	}
}

// Providers reject each request with a block that they do not know, such as a sound or a drawing of an MCP server. The model gets a text
// instead, and the other blocks as they are.
func TestBlocksThatProvidersReject(t *testing.T) {
	blocks := map[string]string{
		`{"type":"text","text":"kept"}`:                                                              "",
		`{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`:                 "",
		`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}}`:          "",
		`{"type":"text","text":" "}`:                                                                 "-",
		`{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}`:                                  "models cannot read it: audio/wav, 57 bytes",
		`{"type":"image","source":{"type":"base64","media_type":"image/svg+xml","data":"PHN2Zy8+"}}`: "models cannot read it: image/svg+xml, 90 bytes",
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":""}}`:             "models cannot read it: image/png",
		`{"type":"image","data":"@","mimeType":"image/png"}`:                                         "models cannot read it: image/png",
		`{"type":"resource_link","uri":"file:///a","name":"a"}`:                                      `{"type":"resource_link","uri":"file:///a","name":"a"}`,
	}
	for block, want := range blocks {
		s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
			return &tools.Result{Blocks: json.RawMessage("[" + block + "]")}
		}))
		model := &recorder{Provider: parseScript(t, asks("say", `{}`), `{"text":"done"}`)}
		if o := run(t, s.agent(model, agent.Config{}), "s", "r", "go"); o.Reply != "done" {
			t.Fatalf("%s: %+v: %v", block, o, o.Err())
		}
		result := model.requests[1].Messages[2].Content[0]
		switch {
		case want == "" && string(result.Content) != "["+block+"]",
			want == "-" && result.ResultText() != "(no output)",
			want != "" && want != "-" && !strings.Contains(result.ResultText(), want):
			t.Errorf("%s: the model gets %s", block, result.Content)
		}
	}
}

// Anthropic accepts only texts in a result that is marked as an error.
func TestPictureOfAToolThatFailed(t *testing.T) {
	const text, picture = `{"type":"text","text":"no button"}`, `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`
	for blocks, want := range map[string]string{
		"[" + text + "]":                 "[" + text + "]",
		"[]":                             `[{"type":"text","text":"(no output)"}]`,
		"[" + text + "," + picture + "]": `[{"type":"text","text":"The tool failed:"},` + text + "," + picture + "]",
	} {
		s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
			return &tools.Result{Blocks: json.RawMessage(blocks), IsError: true}
		}))
		model := &recorder{Provider: parseScript(t, asks("say", `{}`), `{"text":"done"}`)}
		run(t, s.agent(model, agent.Config{}), "s", "r", "go")
		if got := model.requests[1].Messages[2].Content[0]; string(got.Content) != want || got.IsError == strings.Contains(want, "image") {
			t.Errorf("%s: the model gets %s, an error: %v", blocks, got.Content, got.IsError)
		}
	}
}
