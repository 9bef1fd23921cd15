package channel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// transcribeTries is how often a server that fails is asked; other messages wait meanwhile.
const transcribeTries = 3

// Transcriber makes texts of recordings with a server of OpenAI's audio/transcriptions
// (https://platform.openai.com/docs/api-reference/audio).
type Transcriber struct {
	api        *poster
	key, model string
}

// NewTranscriber returns a Transcriber for a server, such as https://api.openai.com/v1. The key
// may be empty. An empty model is whisper-1.
func NewTranscriber(url, key, model string) (*Transcriber, error) {
	api, err := newPoster(strings.TrimSuffix(url, "/")+"/audio/transcriptions", key)
	return &Transcriber{api, key, cmp.Or(model, "whisper-1")}, err
}

// Text returns what a recording says.
func (t *Transcriber) Text(ctx context.Context, voice Attachment) (text string, err error) {
	tries := backoff.WithMaxRetries(retry.Pauses(500*time.Millisecond, time.Minute, 0), transcribeTries-1)
	err = retry.Do(ctx, tries, func(err error) bool { _, final := consume.Rejected(err); return final }, nil, func() (err error) {
		text, err = t.ask(ctx, voice)
		return err
	})
	return text, err
}

func (t *Transcriber) ask(ctx context.Context, voice Attachment) (string, error) {
	recording, err := voice.Read(ctx)
	if err != nil {
		return "", err
	}
	body, length, contentType := form(map[string]string{"model": t.model}, "file", &Document{Name: voice.Name,
		Size: int64(len(recording)), Content: bytes.NewReader(recording)})
	header := http.Header{"Content-Type": {contentType}}
	if t.key != "" {
		header.Set("Authorization", "Bearer "+t.key)
	}
	res, answer, err := t.api.exchange(ctx, http.MethodPost, t.api.url, header, body, length) // ctx limits the time
	if err == nil {
		err = t.api.check(res, answer)
	}
	var transcription struct {
		Text string `json:"text"`
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("transcribe: %w", err)
	case json.Unmarshal(answer, &transcription) != nil, strings.TrimSpace(transcription.Text) == "":
		return "", consume.Reject("no_text", fmt.Errorf("transcribe: the answer of %s has no text", t.api.host))
	}
	return strings.TrimSpace(transcription.Text), nil
}
