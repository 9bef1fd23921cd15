package channel

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

func TestSlackTexts(t *testing.T) {
	for text, want := range map[string]string{
		"a &lt;b&gt; &amp;amp; c":                      "a <b> &amp; c",
		"<https://x.example|here> <https://y.example>": "here (https://x.example) https://y.example",
		"<https://x.example|https://x.example>":        "https://x.example",
		"<@U2> <!here> <#C1|general>":                  "@U2 !here #C1",
		"<>":                                           "<>",
	} {
		if got := slackPlain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The errors of the web API are rejections, except those that a retry can mend. The token goes
// to no other host.
func TestSlackErrors(t *testing.T) {
	reason, asked := "", ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": reason == "", "error": reason})
	}))
	t.Cleanup(api.Close)
	s, err := NewSlack("xoxb-secret", "", BotConfig{Chat: "C1", Server: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ reason, code string }{{"channel_not_found", "refused_channel_not_found"}, {"internal_error", ""}, {"xoxb-secret", "refused_xxxxx"}} {
		reason = test.reason
		err := s.Send(t.Context(), Notification{ID: "1", Text: "x", At: time.Now()})
		if code, _ := bus.Rejected(err); code != test.code || err == nil || strings.Contains(err.Error()+code, "xoxb-secret") {
			t.Errorf("%s: %q, %v", test.reason, code, err)
		}
	}
	if err := s.CheckReceive(); err == nil || !strings.Contains(err.Error(), "apptoken") {
		t.Errorf("without apptoken: %v", err)
	}
	asked = ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.Header.Get("Authorization") }))
	t.Cleanup(other.Close)
	for _, address := range []string{other.URL, "https://slack.com.evil.example/x", "http://files.slack.com/x", "//files.slack.com/x", "\x00"} {
		if _, err := s.file(t.Context(), address); err == nil || asked != "" {
			t.Errorf("%s: %v, %q", address, err, asked)
		}
	}
}
