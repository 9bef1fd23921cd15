package agent_test

import (
	"bytes"
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
