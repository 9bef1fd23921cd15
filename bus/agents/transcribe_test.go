package agents

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// A voice message becomes text. If that fails, the agent is told, and no other message waits.
func TestVoiceMessages(t *testing.T) {
	t.Parallel()
	answers := []string{}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		file, _, err := r.FormFile("file")
		if err != nil || r.URL.Path != "/v1/audio/transcriptions" || r.Header.Get("Authorization") != "Bearer key" || r.FormValue("model") != "whisper-1" {
			t.Errorf("%s %v: %v", r.URL, r.Header, err)
			return
		}
		if data, _ := io.ReadAll(file); string(data) != "sound" {
			t.Errorf("the file has %q", data)
		}
		status, body, _ := strings.Cut(answers[0], " ")
		answers = answers[min(1, len(answers)-1):]
		code := 0
		_, _ = fmt.Sscan(status, &code)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	transcriber := func(url, key string) *channel.Transcriber {
		transcriber, err := channel.NewTranscriber(url, key, "")
		if err != nil {
			t.Fatal(err)
		}
		return transcriber
	}
	in := &Inbox{log: bustest.Log(t), Transcriber: transcriber(server.URL+"/v1/", "key")}
	host := strings.TrimPrefix(server.URL, "http://")
	voice := &channel.Attachment{Name: "voice.ogg", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("sound")), nil
	}}
	for _, test := range []struct {
		answers       []string
		text, context string
		asked         int
	}{
		{[]string{`200 {"text":" Yes. "}`}, "Yes.", "", 1},
		{[]string{"503 x", "429 x", `200 {"text":"again"}`}, "again", "", 3},
		{[]string{"503 x"}, "", "which you cannot hear: transcribe: post to " + host + ": 503 Service Unavailable", 3},
		{[]string{"401 no"}, "", "which you cannot hear: transcribe: post to " + host + ": 401 Unauthorized: no", 1},
		{[]string{"200 <html>"}, "", "the answer of " + host + " has no text", 1},
		{[]string{`200 {"text":" "}`}, "", "the answer of " + host + " has no text", 1},
	} {
		answers, asked = test.answers, 0
		m := in.hear(t.Context(), channel.Incoming{Voice: voice})
		if m.Text != test.text || !strings.Contains(m.Context, test.context) || (m.Context == "") != (test.context == "") || asked != test.asked {
			t.Errorf("%q: text %q, context %q, asked %d times", test.answers, m.Text, m.Context, asked)
		}
	}
	in.Transcriber = transcriber("http://user:secret@127.0.0.1:1/", "")
	if m := in.hear(t.Context(), channel.Incoming{Voice: voice}); !strings.Contains(m.Context, "refused") || strings.Contains(m.Context, "secret") {
		t.Errorf("without a connection: %+v", m)
	}
	in.Transcriber = nil
	if m := in.hear(t.Context(), channel.Incoming{Voice: voice, Text: "look"}); m.Text != "look" || !strings.Contains(m.Context, "has not set up a transcription") {
		t.Errorf("without a server: %+v", m)
	}
}
