package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

const slackBotToken, slackAppToken = "xoxb-bot-secret-key", "xapp-app-secret-key"

// fakeSlack has the web API and Socket Mode of Slack. It sends an event over each connection
// until one of them confirms it, and keeps the history of its chats.
type fakeSlack struct {
	chatServer
	pending map[string]any // events by envelope id
	order   []string       // envelope ids
	confirm int            // the next confirmations that are lost with their connection
	tickets int
	sockets int
	limited bool // each second request for messages comes too soon
	reads   int
}

func newFakeSlack(t *testing.T) *fakeSlack {
	f := &fakeSlack{pending: map[string]any{}}
	f.start(t, f)
	return f
}

// say lets a user write a message, whose event is lost if nobody is connected and lost is set.
func (f *fakeSlack) say(chat, text string, lost bool, more ...any) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock++
	m := &chatMessage{ID: fmt.Sprintf("%d.000100", 1_800_000_000+f.clock), Author: "U1", Text: text}
	m.Chat, m.Thread, _ = strings.Cut(chat, "/")
	f.messages = append(f.messages, m)
	if !lost {
		event := map[string]any{"type": "message", "channel": chat, "user": m.Author, "text": text, "ts": m.ID}
		for i := 0; i+1 < len(more); i += 2 {
			event[more[i].(string)] = more[i+1]
		}
		f.addLocked(event)
	}
	return m.ID
}

func (f *fakeSlack) addLocked(event map[string]any) {
	id := fmt.Sprintf("envelope-%d", len(f.order))
	f.pending[id] = map[string]any{"envelope_id": id, "type": "events_api", "payload": map[string]any{"type": "event_callback", "event": event}}
	f.order = append(f.order, id)
	f.wake()
}

func (f *fakeSlack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/link" {
		f.socket(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := func(fields map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(fields)
	}
	refuse := func(reason string) { answer(map[string]any{"ok": false, "error": reason}) }
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if f.revoked || method == "apps.connections.open" && token != slackAppToken || method != "apps.connections.open" && token != slackBotToken {
		refuse("invalid_auth")
		return
	}
	if r.Method != http.MethodPost || r.ParseForm() != nil {
		f.problem("%s %s", r.Method, r.URL)
		return
	}
	chat, ts, text := r.Form.Get("channel"), r.Form.Get("ts"), r.Form.Get("text")
	if f.fail(w) {
		return
	}
	switch method {
	case "auth.test":
		answer(map[string]any{"ok": true, "user_id": "UBOT", "bot_id": "BBOT"})
	case "apps.connections.open":
		f.tickets++
		answer(map[string]any{"ok": true, "url": fmt.Sprintf("ws%s/link?ticket=%d", strings.TrimPrefix(f.URL, "http"), f.tickets)})
	case "conversations.history", "conversations.replies":
		if f.reads++; f.limited && f.reads%2 == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		// Newest first, in pages of two.
		var all []map[string]any
		latest := map[string]string{}
		for _, m := range slices.Backward(f.messages) {
			latest[m.Thread] = max(latest[m.Thread], m.ID)
			if m.Chat == chat && m.Thread == ts && m.ID > r.Form.Get("oldest") && !m.Gone {
				message := map[string]any{"type": "message", "user": m.Author, "text": m.Text, "ts": m.ID}
				if reply := latest[m.ID]; reply != "" {
					message["latest_reply"] = reply
				}
				if ts != "" {
					message["thread_ts"] = ts
				}
				if m.Author == "UBOT" {
					message["bot_id"] = "BBOT"
				}
				all = append(all, message)
			}
		}
		from := 0
		_, _ = fmt.Sscanf(r.Form.Get("cursor"), "from:%d", &from)
		page := map[string]any{"ok": true, "messages": all[min(from, len(all)):min(from+2, len(all))]}
		if from+2 < len(all) {
			page["response_metadata"] = map[string]any{"next_cursor": fmt.Sprintf("from:%d", from+2)}
		}
		answer(page)
	case "chat.postMessage":
		f.clock++
		m := &chatMessage{ID: fmt.Sprintf("%d.000200", 1_800_000_000+f.clock), Chat: chat, Thread: r.Form.Get("thread_ts"), Author: "UBOT", Text: text, Form: r.Form.Encode()}
		f.messages = append(f.messages, m)
		answer(map[string]any{"ok": true, "channel": chat, "ts": m.ID})
	case "chat.update", "chat.delete":
		m := f.find(chat, ts)
		switch {
		case m == nil:
			refuse("message_not_found")
			return
		case m.Author != "UBOT":
			refuse("cant_update_message")
			return
		case method == "chat.delete":
			m.Gone = true
		default:
			m.Edits, m.Text = m.Edits+1, text
		}
		answer(map[string]any{"ok": true, "channel": chat, "ts": ts})
	default:
		refuse("unknown_method")
	}
}

func (f *fakeSlack) socket(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	valid := r.URL.Query().Get("ticket") == fmt.Sprint(f.tickets)
	f.sockets++
	f.mu.Unlock()
	if !valid {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		f.problem("%v", err)
		return
	}
	defer func() { _ = conn.CloseNow() }()
	ctx := f.connected(conn)
	if wsjson.Write(ctx, conn, map[string]any{"type": "hello", "num_connections": 1}) != nil {
		return
	}
	var mu sync.Mutex
	sent := map[string]bool{}
	go func() {
		for {
			var ack struct {
				ID string `json:"envelope_id"`
			}
			if wsjson.Read(ctx, conn, &ack) != nil {
				return
			}
			mu.Lock()
			known := sent[ack.ID]
			mu.Unlock()
			f.mu.Lock()
			if !known {
				f.problem("the confirmation of %q, which this connection did not get", ack.ID)
			}
			if f.confirm > 0 {
				f.confirm--
				f.mu.Unlock()
				_ = conn.CloseNow()
				return
			}
			delete(f.pending, ack.ID)
			f.mu.Unlock()
			f.wake()
		}
	}()
	for {
		f.mu.Lock()
		changed := f.changed
		var next []any
		mu.Lock()
		for _, id := range f.order {
			if event := f.pending[id]; event != nil && !sent[id] {
				sent[id] = true
				next = append(next, event)
			}
		}
		mu.Unlock()
		if f.command != nil {
			next = append(next, f.command)
			f.command = nil
		}
		f.mu.Unlock()
		for _, event := range next {
			if wsjson.Write(ctx, conn, event) != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
