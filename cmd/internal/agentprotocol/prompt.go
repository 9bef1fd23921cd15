package agentprotocol

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// envelope is the body of a prompt. A body that is no JSON object is the prompt itself.
type envelope struct {
	Prompt      string       `json:"prompt"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	Filename string `json:"filename"`
	Content  string `json:"content"` // base64, of the standard alphabet and padded
}

// maxAttachments bounds the files of a prompt.
const maxAttachments = 20

// decode reads the body of a prompt or of the answer to a query.
func decode(body []byte) (e envelope, err error) {
	trimmed := bytes.TrimSpace(body)
	switch {
	case !utf8.Valid(body):
		return e, errors.New("the prompt is not valid UTF-8")
	case bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(trimmed):
		if err := json.Unmarshal(trimmed, &e); err != nil {
			return e, fmt.Errorf(`the envelope has a wrong type: want {"prompt":"...","attachments":[{"filename":"...","content":"BASE64"}]}: %w`, err)
		}
	default:
		e.Prompt = string(body)
	}
	if strings.TrimSpace(e.Prompt) == "" {
		return e, errors.New(`prompt missing or empty: want {"prompt":"..."} or the text alone`)
	}
	return e, nil
}

// files returns the attachments of a prompt.
func (e envelope) files() ([]channel.Attachment, error) {
	if len(e.Attachments) > maxAttachments {
		return nil, fmt.Errorf("%d attachments: want at most %d", len(e.Attachments), maxAttachments)
	}
	var files []channel.Attachment
	for i, a := range e.Attachments {
		if a.Filename == "" || a.Filename == ".." || a.Filename == "." || strings.ContainsAny(a.Filename, `/\`) {
			return nil, fmt.Errorf("attachment %d has an unsafe filename: want a name without a directory", i)
		}
		content, err := base64.StdEncoding.Strict().DecodeString(a.Content)
		if err != nil {
			return nil, fmt.Errorf("attachment %d has invalid base64 content: want the standard alphabet with padding", i)
		}
		files = append(files, channel.Attachment{Name: a.Filename, Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}})
	}
	return files, nil
}
