package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

const discordToken = "discord-secret-key"

// threadsOf has the channels of the threads, of which T1 is active.
var threadsOf = map[string]string{"T1": "S1", "T2": "S1", "T3": "S1", "T4": "F1"}

// fakeDiscord has the web API and the gateway of Discord. It repeats events only to a session
// that is resumed.
type fakeDiscord struct {
	chatServer
	session  int              // of the gateway; 0 if there is none
	events   []map[string]any // of the session
	mute     bool             // the gateway does not confirm heartbeats
	logins   []string         // identify or resume
	nonces   map[string]*chatMessage
	frozen   bool // messages cannot be edited
	lose     int  // the next responses to sent and edited messages that are lost
	interval int  // of heartbeats, in ms
	beats    int  // that were not confirmed
	away     bool // the gateway takes no connections
}

func newFakeDiscord(t *testing.T) *fakeDiscord {
	f := &fakeDiscord{nonces: map[string]*chatMessage{}, interval: 60_000}
	f.start(t, f)
	return f
}

func (f *fakeDiscord) nextID() string {
	f.clock++
	return strconv.Itoa(1_400_000_000_000_000_000 + f.clock)
}

// say lets a user write a message; a server names it in a server that is no direct message.
func (f *fakeDiscord) say(chat, server, text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &chatMessage{ID: f.nextID(), Chat: chat, Author: "U1", Text: text}
	f.messages = append(f.messages, m)
	event := f.wire(m)
	if server != "" {
		event["guild_id"] = server
	}
	f.dispatchLocked("MESSAGE_CREATE", event)
	return m.ID
}

// press lets a user press a button of an approval.
func (f *fakeDiscord) press(chat, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dispatchLocked("INTERACTION_CREATE", map[string]any{
		"id": f.nextID(), "token": "t", "channel_id": chat, "user": map[string]any{"id": "U1"}, "message": map[string]any{"content": "May it run?"},
		"data": map[string]any{"custom_id": "yes:" + key},
	})
}

func (f *fakeDiscord) wire(m *chatMessage) map[string]any {
	mentions := []any{}
	if strings.Contains(m.Text, "<@UBOT>") {
		mentions = append(mentions, map[string]any{"id": "UBOT"})
	}
	return map[string]any{
		"id": m.ID, "channel_id": m.Chat, "type": 0, "content": m.Text, "mentions": mentions, "attachments": []any{},
		"author": map[string]any{"id": m.Author, "username": "ann", "global_name": "Ann", "bot": m.Author == "UBOT"},
	}
}

func (f *fakeDiscord) dispatchLocked(kind string, data any) {
	if f.session == 0 {
		return // nobody is there to get it
	}
	f.events = append(f.events, map[string]any{"op": 0, "t": kind, "s": len(f.events) + 1, "d": data})
	f.wake()
}

// forget ends the session of the gateway, as after minutes without a connection.
func (f *fakeDiscord) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.session = 0
}

func (f *fakeDiscord) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/gateway") {
		f.gateway(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revoked || r.Header.Get("Authorization") != "Bot "+discordToken {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if f.fail(w) {
		return
	}
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	path := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/v10"), "/"), "/")
	if path[len(path)-1] == "typing" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if path[0] == "interactions" { // the bot answers later than Discord waits
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var content struct {
		Content string `json:"content"`
		Nonce   string `json:"nonce"`
		Enforce bool   `json:"enforce_nonce"`
		Allowed *struct{ Parse []string }
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		if err := json.NewDecoder(r.Body).Decode(&content); err != nil || content.Content == "" || len(content.Content) > 2000 || len(content.Nonce) > 25 {
			f.problem("%s %s: %v, %+v", r.Method, r.URL, err, content)
		}
	}
	last := func(chat string) (id string) {
		for _, m := range f.messages {
			if m.Chat == chat {
				id = m.ID
			}
		}
		return id
	}
	switch {
	case len(path) == 5 && path[1][0] == 'V' || path[len(path)-1] == "messages" && path[1][0] == 'F':
		w.WriteHeader(http.StatusBadRequest)
		answer(map[string]any{"message": "Cannot execute action on this channel type", "code": 50024})
	case path[0] == "guilds" || len(path) == 5: // a page has one archived thread
		archived := func(n int) string { return fmt.Sprintf("2030-01-0%dT00:00:00.000000+00:00", n) }
		threads, more := []any{}, false
		for n := 4; n > 0; n-- {
			id := fmt.Sprint("T", n)
			before := r.URL.Query().Get("before")
			if path[0] == "guilds" != (n == 1) || path[0] == "channels" && threadsOf[id] != path[1] || before != "" && archived(n) >= before {
				continue
			}
			if more = len(threads) == 1; more {
				break
			}
			threads = append(threads, map[string]any{"id": id, "parent_id": threadsOf[id], "last_message_id": last(id), "thread_metadata": map[string]any{"archive_timestamp": archived(n)}})
		}
		answer(map[string]any{"threads": threads, "has_more": more})
	case path[0] == "gateway":
		limit := map[string]any{"total": 1000, "remaining": 1000, "reset_after": 0, "max_concurrency": 16}
		answer(map[string]any{"url": "ws" + strings.TrimPrefix(f.URL, "http") + "/gateway", "shards": 1, "session_start_limit": limit})
	case len(path) == 2 && r.Method == http.MethodGet:
		channel := map[string]any{"id": path[1], "type": 1, "last_message_id": last(path[1])}
		switch path[1][0] {
		case 'S', 'V', 'F': // text, voice, forum
			channel["type"], channel["guild_id"] = map[byte]int{'S': 0, 'V': 2, 'F': 15}[path[1][0]], "guild"
		case 'T':
			channel["type"], channel["guild_id"], channel["parent_id"] = 11, "guild", threadsOf[path[1]]
		}
		answer(channel)
	case len(path) == 3 && r.Method == http.MethodGet:
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		page := []any{}
		for _, m := range f.messages {
			if m.Chat == path[1] && m.ID > r.URL.Query().Get("after") && !m.Gone && len(page) < limit {
				page = append(page, f.wire(m))
			}
		}
		slices.Reverse(page)
		answer(page)
	case len(path) == 3 && r.Method == http.MethodPost:
		m := f.nonces[content.Nonce]
		if m == nil || !content.Enforce {
			m = &chatMessage{ID: f.nextID(), Chat: path[1], Author: "UBOT", Text: content.Content}
			f.messages = append(f.messages, m)
			if content.Nonce != "" {
				f.nonces[content.Nonce] = m
			}
			f.dispatchLocked("MESSAGE_CREATE", f.wire(m)) // the bot sees its own messages
		}
		if f.lose > 0 && content.Nonce != "" {
			f.lose--
			panic(http.ErrAbortHandler)
		}
		answer(f.wire(m))
	case len(path) == 4 && (r.Method == http.MethodPatch || r.Method == http.MethodDelete):
		m := f.find(path[1], path[3])
		if m == nil {
			w.WriteHeader(http.StatusNotFound)
			answer(map[string]any{"message": "Unknown Message", "code": 10008})
			return
		}
		if r.Method == http.MethodPatch && f.frozen {
			w.WriteHeader(http.StatusForbidden)
			answer(map[string]any{"message": "Missing Permissions", "code": 50013})
			return
		}
		if r.Method == http.MethodDelete {
			m.Gone = true
			w.WriteHeader(http.StatusNoContent)
			return
		}
		m.Edits, m.Text = m.Edits+1, content.Content
		if f.lose > 0 {
			f.lose--
			panic(http.ErrAbortHandler)
		}
		answer(f.wire(m))
	default:
		f.problem("%s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fakeDiscord) gateway(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "v=10&encoding=json" {
		f.problem("gateway: %s", r.URL)
	}
	f.mu.Lock()
	away := f.away
	f.mu.Unlock()
	if away {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	ctx := f.connected(conn)
	f.mu.Lock()
	interval := f.interval
	f.mu.Unlock()
	if wsjson.Write(ctx, conn, map[string]any{"op": 10, "d": map[string]any{"heartbeat_interval": interval}}) != nil {
		return
	}
	logged := make(chan int, 1) // the sequence from which on the connection gets events
	go func() {
		for {
			var m struct {
				Op   int
				Data json.RawMessage `json:"d"`
			}
			if wsjson.Read(ctx, conn, &m) != nil {
				return
			}
			if !f.hear(m.Op, m.Data, logged, conn) {
				_ = conn.CloseNow()
				return
			}
		}
	}()
	next := 0
	select {
	case next = <-logged:
	case <-ctx.Done():
		return
	}
	for {
		f.mu.Lock()
		changed, events := f.changed, f.events[min(next, len(f.events)):]
		command := f.command
		f.command = nil
		f.mu.Unlock()
		for _, event := range events {
			if wsjson.Write(ctx, conn, event) != nil {
				return
			}
			next++
		}
		if command != nil && wsjson.Write(ctx, conn, command) != nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// hear handles a message of the bot, and returns false if the gateway ends the connection.
func (f *fakeDiscord) hear(op int, data json.RawMessage, logged chan<- int, conn *websocket.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var login struct {
		Token   string
		Session string `json:"session_id"`
		Seq     int
		Intents int
	}
	if (op == 2 || op == 6) && (json.Unmarshal(data, &login) != nil || login.Token != discordToken) {
		f.problem("login %s", data)
		return false
	}
	if (op == 2 || op == 6) && f.revoked {
		go func() { _ = conn.Close(4004, "Authentication failed.") }()
		return true
	}
	switch op {
	case 1:
		var seq *int
		if json.Unmarshal(data, &seq) != nil || seq != nil && *seq > len(f.events) {
			f.problem("heartbeat %s of %d events", data, len(f.events))
		}
		if f.mute {
			f.beats++
		} else {
			go func() { _ = wsjson.Write(f.ctx, conn, map[string]any{"op": 11}) }()
		}
	case 2:
		if login.Intents&(1<<9|1<<12) == 0 {
			f.problem("identify %s", data)
		}
		f.clock++
		f.session, f.events, f.logins = f.clock, nil, append(f.logins, "identify")
		f.dispatchLocked("READY", map[string]any{
			"session_id": fmt.Sprint(f.session), "resume_gateway_url": "ws" + strings.TrimPrefix(f.URL, "http") + "/gateway", "user": map[string]any{"id": "UBOT"},
		})
		logged <- 0
	case 6:
		if f.session == 0 || login.Session != fmt.Sprint(f.session) || login.Seq > len(f.events) {
			f.logins = append(f.logins, "invalid")
			go func() { _ = wsjson.Write(f.ctx, conn, map[string]any{"op": 9, "d": false}) }()
			return true
		}
		f.logins = append(f.logins, "resume")
		f.dispatchLocked("RESUMED", nil)
		logged <- login.Seq
	default:
		f.problem("op %d", op)
	}
	return true
}
