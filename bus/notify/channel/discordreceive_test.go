package channel

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/rs/zerolog"
)

// slowInbox takes so long for a message as files of many MB do.
type slowInbox struct {
	Inbox
	takes    time.Duration
	accepted chan string
}

func (in *slowInbox) Accept(ctx context.Context, m Incoming) (Accepted, error) {
	select {
	case <-time.After(in.takes):
		in.accepted <- m.Text
		return Accepted{}, nil
	case <-ctx.Done():
		return Accepted{}, ctx.Err()
	}
}

func (*slowInbox) Position(context.Context, string) (string, error)  { return "1", nil }
func (*slowInbox) SetPosition(context.Context, string, string) error { return nil }

// A message that takes longer than the heartbeats of the gateway is stored: the confirmations wait
// behind it.
func TestDiscordMessageLongerThanHeartbeats(t *testing.T) {
	t.Parallel()
	const interval = 20
	var connections atomic.Int32
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	address := "ws" + strings.TrimPrefix(server.URL, "http")
	mux.HandleFunc("/gateway/bot", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"url":"` + address + `"}`)) })
	mux.HandleFunc("/channels/7", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"type":1}`)) })
	mux.HandleFunc("/channels/7/messages", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`[]`)) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		connections.Add(1)
		send := func(m map[string]any) { _ = wsjson.Write(r.Context(), conn, m) }
		send(map[string]any{"op": opHello, "d": map[string]any{"heartbeat_interval": interval}})
		for {
			var e discordEvent
			if wsjson.Read(r.Context(), conn, &e) != nil {
				return
			}
			switch e.Op {
			case opHeartbeat:
				send(map[string]any{"op": opHeartbeatAck})
			case opIdentify, opResume:
				send(map[string]any{"op": opDispatch, "s": 1, "t": "READY", "d": map[string]any{"session_id": "s", "resume_gateway_url": address, "user": map[string]any{"id": "BOT"}}})
				send(map[string]any{"op": opDispatch, "s": 2, "t": "MESSAGE_CREATE", "d": map[string]any{"id": "2", "channel_id": "7", "content": "hello", "author": map[string]any{"id": "U"}}})
			}
		}
	})
	d, err := NewDiscord("secret", BotConfig{Chat: "7", Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	inbox := &slowInbox{takes: 20 * interval * time.Millisecond, accepted: make(chan string, 10)}
	go func() { ended <- d.Receive(ctx, inbox, zerolog.Nop()) }()
	select {
	case <-inbox.accepted:
	case <-time.After(time.Minute):
		t.Error("the message was not accepted")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
