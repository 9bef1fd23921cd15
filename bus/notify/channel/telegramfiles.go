package channel

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/consume"
)

// telegramMaxFile is the largest file that a bot can download, in bytes. Source:
// https://core.telegram.org/bots/api#getfile
const telegramMaxFile = 20 << 20

// telegramFile is a photo in one size, or a document.
type telegramFile struct {
	ID   string `json:"file_id"`
	Name string `json:"file_name"`
	Type string `json:"mime_type"`
	Size int64  `json:"file_size"`
}

// files returns the files of a message that the agent can read. A photo comes in several
// sizes, the largest last.
func (t *Telegram) files(m *telegramMessage) []Attachment {
	var found []Attachment
	if n := len(m.Photo); n > 0 {
		found = append(found, t.file(m.Photo[n-1], "photo.jpg"))
	}
	if m.Document != nil {
		found = append(found, t.file(*m.Document, "document"+fileEnding(m.Document.Type)))
	}
	return found
}

// voice returns the recording of a voice message, or nil.
func (t *Telegram) voice(m *telegramMessage) *Attachment {
	if m.Voice == nil {
		return nil
	}
	return new(t.file(*m.Voice, "voice.ogg"))
}

// fileEnding returns the usual ending of the names of files of a media type, or "".
func fileEnding(mediaType string) string {
	endings, err := mime.ExtensionsByType(mediaType)
	if err != nil || len(endings) == 0 {
		return ""
	}
	return endings[0]
}

func (t *Telegram) file(f telegramFile, name string) Attachment {
	return Attachment{Name: cmp.Or(f.Name, name), Open: func(ctx context.Context) (io.ReadCloser, error) {
		if f.Size > telegramMaxFile {
			return nil, consume.Reject("too_large", fmt.Errorf("it has more than %d MB, which the service does not let bots download", telegramMaxFile>>20))
		}
		var at struct {
			Path string `json:"file_path"`
		}
		if err := t.request(ctx, "getFile", object{"file_id": f.ID}, &at); err != nil {
			return nil, err
		}
		bot := strings.LastIndex(t.api.url, "/bot") // the host may begin with it, too
		return t.api.download(ctx, t.api.url[:bot]+"/file"+t.api.url[bot:]+at.Path)
	}}
}
