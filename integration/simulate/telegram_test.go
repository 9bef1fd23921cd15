package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// network is a chat network: the messages of its chats as their users see them, and what the users
// write, until a bot has taken it.
type network struct {
	mu      sync.Mutex
	shown   []*shown
	waiting []written
	changed chan struct{} // closed when a user writes
	numbers int64
	broken  int // how the API fails: 0 means not at all, else the status, or 1 for no answer
}

// shown is a message of the bot.
type shown struct {
	number     int64
	chat, text string
	nonce      string // a network that has one shows a message once
	keyboard   string // the buttons, or the key of a question
	at         time.Time
	gone       bool
}

// written is what a user did in a chat.
type written struct {
	number int64
	chat   string
	text   string
	button string // of a message of the bot
	on     *shown
}

func newNetwork() *network { return &network{changed: make(chan struct{}), numbers: 1000} }

// write lets the user of a chat write, or press a button.
func (n *network) write(w written) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.numbers++
	w.number = n.numbers
	n.waiting = append(n.waiting, w)
	close(n.changed)
	n.changed = make(chan struct{})
}

// put shows a message, or changes one that is shown.
func (n *network) put(s shown) *shown {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range n.shown {
		if s.number != 0 && known.number == s.number || s.nonce != "" && known.nonce == s.nonce {
			if s.number != 0 {
				known.text, known.at = s.text, time.Now()
			}
			return known
		}
	}
	n.numbers++
	s.number, s.at = n.numbers, time.Now()
	n.shown = append(n.shown, &s)
	return &s
}

// view returns the texts that a chat shows, oldest first.
func (n *network) view(chat string) (list []shown) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.shown {
		if s.chat == chat && !s.gone {
			list = append(list, *s)
		}
	}
	return list
}

func (n *network) fail(how int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = how
}

func (n *network) failure() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.broken
}

// telegram is the Bot API of a network for the bot of one process, without sockets.
type telegram struct {
	*network
	link *link
}

// RoundTrip implements http.RoundTripper.
func (t telegram) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.link.died() || t.failure() == 1 {
		return nil, errDown
	}
	fields, err := formOf(r)
	if err != nil {
		return nil, err
	}
	status, result := cmp.Or(t.failure(), http.StatusOK), any(true)
	if status == http.StatusOK {
		status, result = t.answer(r, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], fields)
	}
	if t.link.died() {
		return nil, errDown
	}
	answer := map[string]any{"ok": status == http.StatusOK, "result": result, "error_code": status, "description": "simulated"}
	if status == http.StatusTooManyRequests {
		answer["parameters"] = map[string]int{"retry_after": 30}
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, err
}

// formOf returns the fields of a request, which are JSON or a form.
func formOf(r *http.Request) (map[string]any, error) {
	fields := map[string]any{}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	if kind == "application/json" {
		return fields, json.NewDecoder(r.Body).Decode(&fields)
	}
	form, err := multipart.NewReader(r.Body, params["boundary"]).ReadForm(1 << 20)
	if err == nil {
		for name, values := range form.Value {
			fields[name] = values[0]
		}
	}
	return fields, err
}

// answer returns the answer of the Bot API.
func (t telegram) answer(r *http.Request, method string, fields map[string]any) (status int, result any) {
	text := func(name string) string {
		if number, ok := fields[name].(float64); ok {
			return strconv.FormatInt(int64(number), 10)
		}
		value, _ := fields[name].(string)
		return value
	}
	number, _ := strconv.ParseInt(text("message_id"), 10, 64)
	switch method {
	case "getUpdates":
		offset, _ := strconv.ParseInt(text("offset"), 10, 64)
		return http.StatusOK, t.updates(r, offset)
	case "sendMessage", "editMessageText":
		s := t.put(shown{number: number, chat: text("chat_id"), text: text("text"), keyboard: text("reply_markup")})
		return http.StatusOK, map[string]any{"message_id": s.number}
	case "deleteMessage":
		t.mu.Lock()
		defer t.mu.Unlock()
		if i := slices.IndexFunc(t.shown, func(s *shown) bool { return s.number == number }); i >= 0 {
			t.shown[i].gone = true
		}
		return http.StatusOK, true
	case "sendChatAction", "answerCallbackQuery":
		return http.StatusOK, true
	}
	return http.StatusNotFound, nil
}

// updates confirms what came before offset, and waits for what users write.
func (t telegram) updates(r *http.Request, offset int64) (list []any) {
	end := time.After(50 * time.Second)
	for {
		t.mu.Lock()
		t.waiting = slices.DeleteFunc(t.waiting, func(w written) bool { return w.number < offset })
		waiting, changed := slices.Clone(t.waiting), t.changed
		t.mu.Unlock()
		for _, w := range waiting {
			chat, _ := strconv.ParseInt(w.chat, 10, 64)
			message := map[string]any{"message_id": w.number, "chat": map[string]any{"id": chat, "type": "private"}, "text": w.text}
			update := map[string]any{"update_id": w.number, "message": message}
			if w.button != "" {
				message["message_id"], message["text"] = w.on.number, w.on.text
				update = map[string]any{"update_id": w.number, "callback_query": map[string]any{"id": fmt.Sprint(w.number), "data": w.button, "message": message}}
			}
			list = append(list, update)
		}
		if len(list) > 0 {
			return list
		}
		select {
		case <-changed:
		case <-end:
			return []any{}
		case <-r.Context().Done():
			return []any{}
		}
	}
}
