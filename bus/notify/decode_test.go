package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Whatever a client publishes, the channel is that of the subject, the text is not empty,
// and a channel can encode it.
func FuzzNotification(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","text":"hello"}`, `{"id":"1","text":"**a** <b>","format":"markdown","channel":"other","chat_id":"1"}`, `{"id":"1","text":" "}`,
		`{"id":"1","text":"x","TEXT":"y"}`, `{"id":"1","text":"x","at":"0001-01-01T00:00:00Z"}`, `{"id":"1","text":"x","approval":{}}`, "{\"id\":\"1\",\"text\":\"\xff\"}", `[]`, `{"id":"1","text":"\ud800\u202e\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := decode("phone", body, "1", time.Unix(1_000_000_000, 0))
		if err != nil {
			return
		}
		if n.Channel != "phone" || n.ID == "" || n.Kind == "" || n.At.IsZero() || strings.TrimSpace(n.Text) == "" || !utf8.ValidString(n.Text+n.ChatID+n.Session+n.Tool) {
			t.Fatalf("%q became %+v", body, n)
		}
		if _, err := json.Marshal(n); err != nil {
			t.Fatalf("encode %+v: %v", n, err)
		}
	})
}
