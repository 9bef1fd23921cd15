package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const telegramToken = "123456:AAtelegram-secret-key"

// fakeTelegram is a Bot API. It keeps updates until a request confirms them, as the real
// one does.
type fakeTelegram struct {
	*httptest.Server
	changed chan struct{} // wakes getUpdates

	mu        sync.Mutex
	updates   []map[string]any
	nextID    int
	polls     int
	failures  []func(w http.ResponseWriter) // of the next getUpdates requests
	sent      []telegramSent
	nextMsg   int
	typing    int
	answered  []string          // texts of answerCallbackQuery
	files     map[string][]byte // by file_id
	downloads int
	kill      func(text string) // called while a message is sent
}

type telegramSent struct {
	ID      int
	Edits   int
	Gone    bool
	Chat    string
	Text    string
	Buttons []string // their data
}

func newFakeTelegram(t *testing.T) *fakeTelegram {
	t.Helper()
	f := &fakeTelegram{changed: make(chan struct{}, 1), nextID: 100, nextMsg: 1000}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

// write adds the message of a user.
func (f *fakeTelegram) write(chat, message int, text string) {
	f.add("message", map[string]any{
		"message_id": message, "text": text, "chat": map[string]any{"id": chat, "type": "private"}, "from": map[string]any{"id": chat, "first_name": "Ann"},
	})
}

// press adds the press of a button.
func (f *fakeTelegram) press(chat, message int, data string) {
	f.add("callback_query", map[string]any{
		"id": "callback", "data": data, "from": map[string]any{"id": chat, "first_name": "Ann"},
		"message": map[string]any{"message_id": message, "text": "May it run?", "chat": map[string]any{"id": chat, "type": "private"}},
	})
}

func (f *fakeTelegram) add(kind string, content map[string]any) {
	f.mu.Lock()
	f.nextID++
	f.updates = append(f.updates, map[string]any{"update_id": f.nextID, kind: content})
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fakeTelegram) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if file, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+telegramToken+"/documents/"); ok {
		f.download(w, file)
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+telegramToken+"/")
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"ok":false,"error_code":404,"description":"Not Found"}`)
		return
	}
	params := map[string]any{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		if r.ParseMultipartForm(1<<20) == nil {
			for name, values := range r.MultipartForm.Value {
				params[name] = values[0]
			}
		}
	} else {
		body, _ := io.ReadAll(r.Body)
		dec := json.NewDecoder(strings.NewReader(string(body)))
		dec.UseNumber()
		_ = dec.Decode(&params)
	}
	if method == "getUpdates" {
		f.getUpdates(w, r, params)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	result := any(true)
	id := 0
	_, _ = fmt.Sscan(fmt.Sprint(params["message_id"]), &id)
	switch method {
	case "sendMessage":
		f.nextMsg++
		sent := telegramSent{ID: f.nextMsg, Chat: fmt.Sprint(params["chat_id"]), Text: fmt.Sprint(params["text"])}
		var markup struct {
			Keyboard [][]struct {
				Data string `json:"callback_data"`
			} `json:"inline_keyboard"`
		}
		if text, ok := params["reply_markup"].(string); ok && json.Unmarshal([]byte(text), &markup) == nil {
			for _, button := range markup.Keyboard[0] {
				sent.Buttons = append(sent.Buttons, button.Data)
			}
		}
		f.sent = append(f.sent, sent)
		if f.kill != nil {
			f.kill(sent.Text)
		}
		result = map[string]any{"message_id": f.nextMsg, "date": 1, "chat": map[string]any{"id": 1, "type": "private"}}
	case "getFile":
		result = map[string]any{"file_id": params["file_id"], "file_path": "documents/" + fmt.Sprint(params["file_id"])}
	case "getMe":
		result = map[string]any{"id": 123456, "is_bot": true, "first_name": "Stevedore", "username": "the_bot"}
	case "editMessageText", "deleteMessage":
		at := slices.IndexFunc(f.sent, func(m telegramSent) bool { return m.ID == id && !m.Gone && m.Chat == fmt.Sprint(params["chat_id"]) })
		text := fmt.Sprint(params["text"])
		switch {
		case id == 1 || id == 2: // of the user, with a button
		case at < 0:
			fail(w, "message to edit not found")
			return
		case method == "deleteMessage":
			f.sent[at].Gone = true
		case f.sent[at].Text == text:
			fail(w, "message is not modified")
			return
		default:
			f.sent[at].Text = text
			f.sent[at].Edits++
		}
	case "sendChatAction":
		f.typing++
	case "answerCallbackQuery":
		f.answered = append(f.answered, fmt.Sprint(params["text"]))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

func fail(w http.ResponseWriter, description string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"ok":false,"error_code":400,"description":"Bad Request: %s"}`, description)
}

// download fails the first time.
func (f *fakeTelegram) download(w http.ResponseWriter, file string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.downloads++
	data, ok := f.files[file]
	switch {
	case f.downloads == 1:
		w.WriteHeader(http.StatusBadGateway)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(data)
	}
}

func (f *fakeTelegram) getUpdates(w http.ResponseWriter, r *http.Request, params map[string]any) {
	offset := 0
	_, _ = fmt.Sscan(fmt.Sprint(params["offset"]), &offset)
	for {
		f.mu.Lock()
		f.polls++
		for offset > 0 && len(f.updates) > 0 && f.updates[0]["update_id"].(int) < offset {
			f.updates = f.updates[1:]
		}
		if len(f.failures) > 0 {
			fail := f.failures[0]
			f.failures = f.failures[1:]
			f.mu.Unlock()
			fail(w)
			return
		}
		if len(f.updates) > 0 {
			_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": f.updates})
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		select {
		case <-f.changed:
		case <-r.Context().Done():
			return
		case <-time.After(time.Second):
			fmt.Fprint(w, `{"ok":true,"result":[]}`)
			return
		}
	}
}

// sentTo returns the texts that a chat shows, without statuses.
func (f *fakeTelegram) sentTo(chat string) (texts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.sent {
		if m.Chat == chat && !m.Gone && !strings.HasPrefix(m.Text, "⏳") {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// await waits until done returns true.
func (f *fakeTelegram) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		ok := done()
		f.mu.Unlock()
		if ok {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Fatalf("timeout: %s; sent %+v, updates %v", what, f.sent, f.updates)
}

func (f *fakeTelegram) awaitText(t *testing.T, chat, text string) {
	t.Helper()
	f.await(t, text, func() bool {
		for _, m := range f.sent {
			if m.Chat == chat && strings.Contains(m.Text, text) {
				return true
			}
		}
		return false
	})
}
