package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// hookSecret signs the requests to the hook.
const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hook receives webhooks: it verifies signatures, and it drops a notification whose
// id it has seen before.
type hook struct {
	*httptest.Server
	heard func() // called for each request, before it is answered

	mu       sync.Mutex
	requests int
	told     map[string]toldText // by id
	accepted int                 // including duplicates
	chats    map[string][]string // texts by chat, without duplicates, in order
	problems []string
}

type toldText struct {
	Call    string `json:"call"`
	ChatID  string `json:"chat_id"`
	Text    string `json:"text"`
	IsError bool   `json:"is_error"`
}

func newHook(t *testing.T, heard func()) *hook {
	t.Helper()
	h := &hook{heard: heard, told: map[string]toldText{}, chats: map[string][]string{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// ServeHTTP sometimes refuses a request, and sometimes accepts it but answers with
// an error.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed during the request
	}
	if !h.accept(r.Header, body) {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	h.heard()
}

func (h *hook) accept(header http.Header, body []byte) bool {
	verifier, err := standardwebhooks.NewWebhook(hookSecret)
	if err == nil {
		err = verifier.Verify(body, header)
	}
	var event struct{ Data toldText }
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.problems = append(h.problems, err.Error())
		return false
	}
	if h.requests++; h.requests%20 == 0 {
		return false
	}
	id := header.Get("Webhook-Id")
	before, known := h.told[id]
	if known && before != event.Data {
		h.problems = append(h.problems, id+" came with two texts: "+before.Text+"; "+event.Data.Text)
	}
	if !known {
		h.chats[event.Data.ChatID] = append(h.chats[event.Data.ChatID], event.Data.Text)
	}
	h.told[id] = event.Data
	h.accepted++
	return h.requests%33 != 0
}

// close waits for the running handlers.
func (h *hook) close() {
	h.Close()
	h.mu.Lock() // makes the handlers' writes visible
	defer h.mu.Unlock()
}

// count returns the number of notifications.
func (h *hook) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.told)
}
