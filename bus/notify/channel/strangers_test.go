package channel

import (
	"bytes"
	"encoding/base64"
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
