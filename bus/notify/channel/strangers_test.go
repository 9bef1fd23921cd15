package channel

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// Requests without a signature cannot fill the log.
func TestStrangersCauseFewLines(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	hook, err := NewWebhook("https://example.org/hook", "whsec_"+base64.StdEncoding.EncodeToString([]byte("a secret of the hook")), "7")
	if err != nil {
		t.Fatal(err)
	}
	handler, err := hook.Receiver(nil, zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"chat_id":"7","text":"x"}`)))
		if answer.Code != http.StatusUnauthorized {
			t.Errorf("without a signature: status %d", answer.Code)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines < 1 || lines > 10 {
		t.Errorf("100 requests of strangers cause %d lines", lines)
	}
}

// An update that cannot be read is skipped, and the log says so: a message may be lost.
func TestUnreadableUpdate(t *testing.T) {
	tg := newTelegram(t, newBotAPI(t), "42")
	tg.api.client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		answer := `{"ok":true,"result":[{"update_id":7,"message":{"message_id":"not a number"}}]}`
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	})}
	updates, err := tg.updates(t.Context(), 0)
	if err != nil || len(updates) != 1 || updates[0].ID != 7 {
		t.Fatal(updates, err)
	}
	var log bytes.Buffer
	if err := tg.handle(t.Context(), updates[0], newReception(nil, zerolog.New(&log))); err != nil || !strings.Contains(log.String(), `"update":7`) {
		t.Errorf("%v, log %q", err, log.String())
	}
}
