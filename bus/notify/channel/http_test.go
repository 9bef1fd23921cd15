package channel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stevedore-bus/stevedore/bus/consume"
)

// hook is the receiver of an HTTP channel.
type hook struct {
	*httptest.Server
	mu      sync.Mutex
	headers []http.Header
	bodies  []string
	paths   []string
	answers []func(http.ResponseWriter) // used up one by one; then 200
}

func newHook(t *testing.T, answers ...func(http.ResponseWriter)) *hook {
	t.Helper()
	h := &hook{answers: answers}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.headers, h.bodies, h.paths = append(h.headers, r.Header), append(h.bodies, string(body)), append(h.paths, r.URL.Path)
	if len(h.answers) > 0 {
		answer := h.answers[0]
		h.answers = h.answers[1:]
		answer(w)
	}
}

// status answers with a status and, in pairs, headers.
func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, "no: hook-secret-key %d\x1b[31m", code)
	}
}

// hangUp reads the request and closes the connection.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestWebhookIsSigned(t *testing.T) {
	h := newHook(t, status(503), status(200))
	w, err := NewWebhook(h.URL+"/in", testSecret, "")
	if err != nil {
		t.Fatal(err)
	}
	n := Notification{ID: "result.s.c", Kind: KindResult, Text: "hello <&> \u2028", At: time.Now().UTC()}
	if err := w.Send(t.Context(), n); err == nil {
		t.Error("503 is no error")
	}
	if err := w.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	verifier, err := standardwebhooks.NewWebhook(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	for i, header := range h.headers {
		if err := verifier.Verify([]byte(h.bodies[i]), header); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
		if header.Get("Webhook-Id") != n.ID || header.Get("Idempotency-Key") != n.ID {
			t.Errorf("request %d: headers %v", i, header)
		}
	}
	var body webhookBody
	if err := json.Unmarshal([]byte(h.bodies[1]), &body); err != nil || body.Data.Text != n.Text || body.Type != "stevedore.notification" {
		t.Errorf("body %s, %v", h.bodies[1], err)
	}
	n.ID = "bad\r\nX-Evil: 1"
	if err := w.Send(t.Context(), n); err != nil || !strings.HasPrefix(h.headers[2].Get("Webhook-Id"), "h_") {
		t.Errorf("hostile id: %v, %v", err, h.headers[2])
	}
	if _, err := NewWebhook(h.URL, "whsec_%%%", ""); err == nil || strings.Contains(err.Error(), "%%%") {
		t.Errorf("bad secret: %v", err)
	}
}

func TestClassify(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(http.ResponseWriter)
		dead   string // the dead letter's code; empty for another attempt
		wait   bool   // as long as the receiver asks
	}{
		{"400", status(400), "refused_400", false},
		{"410", status(410), "refused_410", false},
		{"the webhook was revoked", status(401), "", false},
		{"it was removed", status(403), "", false},
		{"it is not there", status(404), "", false},
		{"Mattermost does not have it", func(w http.ResponseWriter) {
			http.Error(w, `{"id":"web.incoming_webhook.invalid.app_error","message":"Invalid webhook.","status_code":400}`, http.StatusBadRequest)
		}, "", false},
		{"redirect", status(302, "Location", "http://127.0.0.1:1/"), "refused_302", false},
		{"429", status(429, "Retry-After", "7"), "", true},
		{"429 without a time", status(429), "", false},
		{"503 with a date", status(503, "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)), "", true},
		{"500", status(500), "", false},
		{"hangs up", hangUp, "", false},
	} {
		h := newHook(t, test.answer)
		c, err := NewHTTP("slack", HTTPConfig{URL: h.URL + "/services/hook-secret-key"})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Send(t.Context(), Notification{ID: "1", Text: "x"})
		if err == nil {
			t.Errorf("%s: no error", test.name)
			continue
		}
		if text := err.Error(); strings.Contains(text, "hook-secret-key") || strings.Contains(text, "\x1b") || !strings.Contains(text, "127.0.0.1") {
			t.Errorf("%s: error %q", test.name, text)
		}
		code, isDead := consume.Rejected(err)
		if code != test.dead || isDead != (test.dead != "") {
			t.Errorf("%s: code %q, %v", test.name, code, isDead)
		}
		if _, wait := consume.Postponed(err); wait != test.wait {
			t.Errorf("%s: pause %v", test.name, wait)
		}
	}
	c, err := NewHTTP("discord", HTTPConfig{URL: "http://127.0.0.1:1/api/hook-secret-key?k=other-secret"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), Notification{Text: "x"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("unreachable: %v", err)
	}
	if _, err := NewHTTP("slack", HTTPConfig{URL: "hook-secret-key"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("bad URL: %v", err)
	}
}

func TestPresets(t *testing.T) {
	n := Notification{ID: "1", Tool: "shell", Session: "s", IsError: true, Text: "a \"b\" <!channel> @All\r\n\u202eü\x07"}
	for preset, want := range map[string]string{
		"slack":      `{"text":"⚠ a \"b\" &lt;!channel&gt; @All\nü","unfurl_links":false,"unfurl_media":false,"mrkdwn":false}`,
		"discord":    `{"content":"⚠ a \"b\" <!channel> @All\nü","allowed_mentions":{"parse":[]},"flags":4}`,
		"mattermost": `{"text":"⚠ a \"b\" <!channel> @` + "\u200b" + `All\nü"}`,
		"gotify":     `{"title":"shell failed","message":"⚠ a \"b\" <!channel> @All\nü","priority":8}`,
		"http":       `{"title":"shell failed","text":"⚠ a \"b\" <!channel> @All\nü","is_error":true,"session":"s"}`,
	} {
		h := newHook(t)
		cfg := HTTPConfig{URL: h.URL}
		if shapes[preset].tokenHeader != "" {
			cfg.Token = "the-token"
		}
		c, err := NewHTTP(preset, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		var got, wanted any
		if err := errors.Join(json.Unmarshal([]byte(h.bodies[0]), &got), json.Unmarshal([]byte(want), &wanted)); err != nil {
			t.Fatalf("%s: %v\n%s", preset, err, h.bodies[0])
		}
		if g, w := fmt.Sprint(got), fmt.Sprint(wanted); g != w {
			t.Errorf("%s:\n got %s\nwant %s", preset, g, w)
		}
		if preset == "gotify" && (h.paths[0] != "/message" || h.headers[0].Get("X-Gotify-Key") != "the-token") {
			t.Errorf("gotify: %s %v", h.paths[0], h.headers[0])
		}
	}
	h := newHook(t)
	c, err := NewHTTP("ntfy", HTTPConfig{URL: h.URL + "/topic", Token: "the-token"})
	if err != nil {
		t.Fatal(err)
	}
	n.Tool = "schön"
	if err := c.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if got := h.headers[0]; got.Get("Title") != "=?utf-8?q?sch=C3=B6n_failed?=" || got.Get("Authorization") != "Bearer the-token" || h.bodies[0] != "⚠ a \"b\" <!channel> @All\nü" {
		t.Errorf("ntfy: %v %q", got, h.bodies[0])
	}
}

func TestTemplates(t *testing.T) {
	n := Notification{ID: "1", Tool: "shell", Session: "s", Text: "\"a\" & b", Format: FormatMarkdown}
	for _, test := range []struct{ contentType, template, want string }{
		{"", `{"text":{{json .Text}},"both":"{{ .Tool }}: {{.Text}}","error":{{.IsError}},"md":{{json .Markdown}}}`,
			`{"text":"\"a\" \u0026 b","both":"shell: \"a\" \u0026 b","error":false,"md":true}`},
		{"application/x-www-form-urlencoded", `id={{.ID}}&title={{.Title}}&message={{.Text}}`, `id=1&title=shell&message=%22a%22+%26+b`},
		{"text/plain", `{{.Session}}: {{.Text}} {json}`, `s: "a" & b {json}`},
	} {
		h := newHook(t)
		c, err := NewHTTP("http", HTTPConfig{URL: h.URL, Template: test.template, ContentType: test.contentType})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if h.bodies[0] != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.contentType, h.bodies[0], test.want)
		}
	}
	for _, bad := range []string{"{{.Nothing}}", "{{", "{{.Text", "{{.Text}", "{{if .IsError}}x{{end}}", "{{}}", "{{jsonx .Text}}"} {
		if _, err := NewHTTP("http", HTTPConfig{URL: "https://x/", Template: bad}); err == nil || !strings.Contains(err.Error(), "unknown placeholder") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := NewHTTP("http", HTTPConfig{URL: "ftp://x/"}); err == nil {
		t.Error("accepted an ftp URL")
	}
}

// If the second of three parts fails, the next attempt continues with it. Another text with the same id is another
// notification.
func TestPartsContinueAfterAFailure(t *testing.T) {
	h := newHook(t, status(200), status(500))
	c, err := NewHTTP("discord", HTTPConfig{URL: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	n := Notification{ID: "1", Text: strings.Repeat("a", 2000) + strings.Repeat("b", 2000) + "c"}
	if err := c.Send(t.Context(), n); err == nil {
		t.Error("no error")
	}
	if err := c.Send(t.Context(), Notification{ID: "1", Text: "other"}); err != nil || len(h.bodies) != 3 {
		t.Errorf("another text: %v, %d requests", err, len(h.bodies))
	}
	if err := c.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if len(h.bodies) != 5 || h.bodies[1] != h.bodies[3] || h.bodies[0] == h.bodies[1] {
		t.Errorf("%d requests", len(h.bodies))
	}
	if err := c.Send(t.Context(), Notification{ID: "2", Text: "next"}); err != nil || len(h.bodies) != 6 {
		t.Errorf("next: %v, %d requests", err, len(h.bodies))
	}
}
