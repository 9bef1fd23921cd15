package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// If a webhook fails in several ways and the receiver drops known ids, each
// notification arrives once, in order.
func TestWebhookIsEffectivelyOnce(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var (
		mu       sync.Mutex
		requests int
		got      []string
		seen     = map[string]bool{}
	)
	failures := []func(http.ResponseWriter){
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "0.01")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Data channel.Notification }
		err := json.NewDecoder(r.Body).Decode(&body)
		mu.Lock()
		defer mu.Unlock()
		requests++
		if id := r.Header.Get("Webhook-Id"); !seen[id] || err != nil {
			seen[id] = true
			got = append(got, body.Data.Text)
		}
		if requests <= len(failures) {
			failures[requests-1](w)
		}
	}))
	t.Cleanup(hook.Close)
	w, err := channel.NewWebhook(hook.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	start(t, b, Config{Channels: map[string]channel.Channel{"hook": w, "console": newRecorder()}})
	for i := range 3 {
		publish(t, b, b.NotifyAny("hook"), fmt.Sprintf(`{"text":"%d"}`, i))
	}
	waitAcked(t, b, b.ChannelConsumer("hook"))
	mu.Lock()
	defer mu.Unlock()
	if strings.Join(got, "") != "012" || requests < 6 { // more if a request timed out
		t.Errorf("received %v in %d requests", got, requests)
	}
}

// No log event or dead letter contains a credential.
func TestNoLogNamesASecret(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprint(w, r.URL)
	}))
	t.Cleanup(echo.Close)
	hook, err := channel.NewHTTP("slack", channel.HTTPConfig{URL: echo.URL + "/services/s3cr3t-key"})
	if err != nil {
		t.Fatal(err)
	}
	letters := bustest.Subscribe(t, b, "stevedore.dead.>")
	var log bytes.Buffer
	n, err := New(b, Config{Channels: map[string]channel.Channel{"console": hook}, Log: zerolog.New(zerolog.SyncWriter(&log))})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.NotifyAny("console"), `{"text":"hello"}`)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- n.Run(ctx) }()
	letter, _ := bustest.Next[dead.Letter](t, letters)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"dead letter": letter.Reason, "log": log.String()} {
		if strings.Contains(text, "s3cr3t") {
			t.Errorf("the %s contains a secret: %s", what, text)
		}
	}
	if letter.Code != "refused_418" || !strings.Contains(letter.Reason, "xxxxx") {
		t.Errorf("dead letter %+v", letter)
	}
}
