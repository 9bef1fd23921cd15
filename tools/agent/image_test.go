package agent_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A model that reads an artifact that is an image gets the image itself.
func TestModelSeesImages(t *testing.T) {
	s := newStage(t)
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + strings.Repeat("\x00\x07q\xfe", 100)
	rec := offload.Record{Artifact: tools.Artifact{ID: "png", Type: offload.TypeBinary, MediaType: "image/png"}, Session: "s"}
	if _, err := s.store.Put(t.Context(), rec, strings.NewReader(png), nil); err != nil {
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
	if image := blocks[1]; image.Type != "image" || image.Source.MediaType != "image/png" || image.Source.Data != base64.StdEncoding.EncodeToString([]byte(png)) {
		t.Errorf("the image is %+v", image)
	}
}
