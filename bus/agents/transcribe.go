package agents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// Transcriber makes texts of recordings with a server of OpenAI's audio/transcriptions
// (https://platform.openai.com/docs/api-reference/audio).
type Transcriber struct {
	// URL is that of the server, such as https://api.openai.com/v1.
	URL string
	// Key may be empty.
	Key string
	// Model is the server's name of a model. Default whisper-1.
	Model string
}

const (
	// transcribeTries is how often a server that fails is asked; other messages wait meanwhile.
	transcribeTries  = 3
	maxTranscription = 1 << 20
)

// hear puts the text of a voice message into m, or a sentence that says why there is none.
func (in *Inbox) hear(ctx context.Context, m channel.Incoming) channel.Incoming {
	var text string
	err := errors.New("the operator has not set up a transcription")
	if in.Transcriber != nil {
		text, err = in.Transcriber.text(ctx, *m.Voice)
	}
	if err != nil {
		in.log.Warn().Err(err).Str("channel", in.channel).Msg("cannot transcribe a voice message")
		m.Context = strings.TrimSpace(m.Context + fmt.Sprintf("\n\n(The user sent a voice message, which you cannot hear: %v.)", tools.Excerpt(tools.OneLine(err.Error()), 200)))
		return m
	}
	m.Text = strings.TrimSpace(m.Text + "\n\n" + text)
	return m
}

// text returns what a recording says.
func (t *Transcriber) text(ctx context.Context, voice channel.Attachment) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	tries := backoff.WithContext(backoff.WithMaxRetries(backoff.NewExponentialBackOff(backoff.WithInitialInterval(500*time.Millisecond)), transcribeTries-1), ctx)
	err = backoff.Retry(func() error {
		text, err = t.ask(ctx, voice)
		if _, final := bus.Rejected(err); final {
			return backoff.Permanent(err)
		}
		return err
	}, tries)
	return text, err
}

func (t *Transcriber) ask(ctx context.Context, voice channel.Attachment) (string, error) {
	content, err := voice.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	var body bytes.Buffer
	form := multipart.NewWriter(&body) // its errors are those of body, which has none
	_ = form.WriteField("model", cmp.Or(t.Model, "whisper-1"))
	part, _ := form.CreateFormFile("file", voice.Name)
	if n, err := io.Copy(part, io.LimitReader(content, maxAttached+1)); err != nil {
		return "", err
	} else if n > maxAttached {
		return "", bus.Reject("too_large", fmt.Errorf("it has more than %d MB", maxAttached>>20))
	}
	_ = form.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(t.URL, "/")+"/audio/transcriptions", &body)
	if err != nil {
		return "", bus.Reject("no_server", errors.New("the address of the transcription is invalid"))
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	if t.Key != "" {
		req.Header.Set("Authorization", "Bearer "+t.Key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if wrong, ok := errors.AsType[*url.Error](err); ok {
			err = wrong.Err // without the URL, which may contain a password
		}
		return "", fmt.Errorf("the server of the transcription does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Text string `json:"text"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxTranscription)).Decode(&answer)
	switch {
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests:
		return "", fmt.Errorf("the server of the transcription answers %s", res.Status)
	case res.StatusCode != http.StatusOK:
		return "", bus.Reject("refused", fmt.Errorf("the server of the transcription answers %s", res.Status))
	case err != nil, strings.TrimSpace(answer.Text) == "":
		return "", bus.Reject("no_text", errors.New("the transcription has no text"))
	}
	return strings.TrimSpace(answer.Text), nil
}
