package channel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Operations of the gateway. Source:
// https://discord.com/developers/docs/topics/opcodes-and-status-codes
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opResume         = 6
	opReconnect      = 7
	opInvalidSession = 9
	opHello          = 10
	opHeartbeatAck   = 11
)

// discordIntents are the events that the bot asks for: messages in servers and direct ones.
// The text of a message in a server comes only if it mentions the bot.
const discordIntents = 1<<9 | 1<<12

// discordEvent is a message of the gateway.
type discordEvent struct {
	Op       int             `json:"op"`
	Data     json.RawMessage `json:"d"`
	Sequence int64           `json:"s"`
	Type     string          `json:"t"`
}

type discordUser struct {
	ID     string `json:"id"`
	Name   string `json:"username"`
	Global string `json:"global_name"`
	Bot    bool   `json:"bot"`
}

type discordMessage struct {
	ID       string        `json:"id"`
	Channel  string        `json:"channel_id"`
	Server   string        `json:"guild_id"` // empty in direct messages
	Type     int           `json:"type"`
	Author   discordUser   `json:"author"`
	Content  string        `json:"content"`
	Mentions []discordUser `json:"mentions"`
	Files    []struct {
		Name string `json:"filename"`
		URL  string `json:"url"`
	} `json:"attachments"`
	ReplyTo *struct {
		Content string `json:"content"`
	} `json:"referenced_message"`
}

// Receive passes the messages of allowed chats to inbox until ctx ends, by the gateway. In
// direct messages these are all, elsewhere those that mention the bot.
//
// The gateway repeats events that a resumed connection has missed, and forgets them after
// minutes. So Receive counts an event when inbox has accepted it, and reads what has been
// written since the last accepted message when it connects.
func (d *Discord) Receive(ctx context.Context, inbox Inbox, log zerolog.Logger) error {
	r := newReception(inbox, log)
	return r.again(ctx, func(ctx context.Context, healthy func()) error {
		address := d.resumeURL
		if d.session == "" {
			if err := catchUp(ctx, d.bot, r, d.history, nil); err != nil {
				return err
			}
			var gateway struct {
				URL string `json:"url"`
			}
			if err := d.call(ctx, http.MethodGet, "/gateway/bot", nil, &gateway); err != nil {
				return err
			}
			address = gateway.URL
		}
		interval, confirmed := make(chan time.Duration, 1), make(chan struct{}, 1)
		connected := false
		err := d.connect(ctx, strings.TrimSuffix(address, "/")+"/?v=10&encoding=json", func(ctx context.Context, conn *websocket.Conn) error {
			connected = true
			for {
				if err := d.next(ctx, conn, r, interval, confirmed); err != nil {
					return err
				}
				if d.session != "" {
					healthy()
				}
			}
		}, func(ctx context.Context, conn *websocket.Conn) error {
			return d.beat(ctx, conn, interval, confirmed)
		})
		if !connected { // the URL to resume at may be old
			d.session = ""
		}
		return err
	})
}

// beat sends a heartbeat at each interval, and fails if the last one was not confirmed.
func (d *Discord) beat(ctx context.Context, conn *websocket.Conn, interval <-chan time.Duration, confirmed <-chan struct{}) error {
	var every time.Duration
	select {
	case every = <-interval:
	case <-time.After(sendTimeout):
		return fmt.Errorf("receive from discord: the gateway does not say hello")
	case <-ctx.Done():
		return ctx.Err()
	}
	for pause := rand.N(every); ; pause = every {
		if err := tools.Sleep(ctx, pause); err != nil {
			return err
		}
		if err := d.heartbeat(ctx, conn); err != nil {
			return err
		}
		select {
		case <-confirmed:
		case <-time.After(every):
			if !d.handling.Load() { // otherwise nobody reads the confirmation
				return fmt.Errorf("receive from discord: the gateway does not confirm heartbeats")
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *Discord) heartbeat(ctx context.Context, conn *websocket.Conn) error {
	var last any
	if n := d.sequence.Load(); n > 0 {
		last = n
	}
	return d.write(ctx, conn, object{"op": opHeartbeat, "d": last})
}

// next handles the next message of a connection.
func (d *Discord) next(ctx context.Context, conn *websocket.Conn, r *reception, interval chan<- time.Duration, confirmed chan<- struct{}) error {
	var e discordEvent
	if err := wsjson.Read(ctx, conn, &e); err != nil {
		if code := websocket.CloseStatus(err); code == 4004 || code >= 4010 && code <= 4014 {
			d.session = ""
			return bus.Reject(fmt.Sprintf("refused_%d", code), err)
		} else if code == 4007 || code == 4009 {
			d.session = ""
		}
		return err
	}
	switch e.Op {
	case opHello:
		var hello struct {
			Interval int64 `json:"heartbeat_interval"`
		}
		if err := json.Unmarshal(e.Data, &hello); err != nil || hello.Interval <= 0 {
			return fmt.Errorf("receive from discord: an invalid hello")
		}
		select {
		case interval <- time.Duration(hello.Interval) * time.Millisecond:
		default:
		}
		return d.login(ctx, conn)
	case opHeartbeat:
		return d.heartbeat(ctx, conn)
	case opHeartbeatAck:
		select {
		case confirmed <- struct{}{}:
		default:
		}
	case opReconnect:
		return errReconnect
	case opInvalidSession:
		if string(e.Data) != "true" {
			d.session = ""
		}
		return bus.RetryAfter(time.Second+rand.N(4*time.Second), fmt.Errorf("receive from discord: the session is invalid"))
	case opDispatch:
		d.handling.Store(true)
		defer d.handling.Store(false)
		if err := d.dispatch(ctx, e, r); err != nil {
			return err
		}
		d.sequence.Store(e.Sequence)
	}
	return nil
}

// login begins a session, or resumes the last one.
func (d *Discord) login(ctx context.Context, conn *websocket.Conn) error {
	if d.session != "" {
		return d.write(ctx, conn, object{"op": opResume, "d": object{"token": d.token, "session_id": d.session, "seq": d.sequence.Load()}})
	}
	d.sequence.Store(0)
	properties := object{"os": "linux", "browser": "stevedore", "device": "stevedore"}
	return d.write(ctx, conn, object{"op": opIdentify, "d": object{"token": d.token, "intents": discordIntents, "properties": properties}})
}

func (d *Discord) dispatch(ctx context.Context, e discordEvent, r *reception) error {
	switch e.Type {
	case "READY":
		var ready struct {
			Session   string      `json:"session_id"`
			ResumeURL string      `json:"resume_gateway_url"`
			User      discordUser `json:"user"`
		}
		if err := json.Unmarshal(e.Data, &ready); err != nil {
			return fmt.Errorf("receive from discord: %w", err)
		}
		d.self = ready.User.ID
		err := catchUp(ctx, d.bot, r, d.history, func(m discordMessage) error { return d.handle(ctx, m, r) })
		if err == nil { // otherwise the next session catches up again
			d.session, d.resumeURL = ready.Session, ready.ResumeURL
		}
		return err
	case "MESSAGE_CREATE":
		var m discordMessage
		if err := json.Unmarshal(e.Data, &m); err != nil {
			r.log.Warn().Err(err).Msg("ignored a message that cannot be read")
			return nil
		}
		return d.handle(ctx, m, r)
	}
	return nil
}

// history reads the messages of a chat; see catchUp.
func (d *Discord) history(ctx context.Context, chat, position string) (missed []discordMessage, next string, err error) {
	const direct, limit = 1, 100
	var info struct {
		Type int    `json:"type"`
		Last string `json:"last_message_id"`
	}
	if err := d.call(ctx, http.MethodGet, "/channels/"+url.PathEscape(chat), nil, &info); err != nil {
		return nil, "", err
	}
	if position == "" {
		return nil, cmp.Or(info.Last, "0"), nil
	}
	for {
		var page []discordMessage // newest first
		if err := d.call(ctx, http.MethodGet, fmt.Sprintf("%s?after=%s&limit=%d", messagesOf(chat), url.QueryEscape(position), limit), nil, &page); err != nil {
			return nil, "", err
		}
		for _, m := range slices.Backward(page) {
			if m.Channel, position = chat, m.ID; info.Type != direct {
				m.Server = "unknown"
			}
			missed = append(missed, m)
		}
		if len(page) < limit {
			return missed, position, nil
		}
	}
}

// handle passes one message on. An error means that the message must be handled again.
func (d *Discord) handle(ctx context.Context, m discordMessage, r *reception) error {
	const text, reply = 0, 19
	mentioned := slices.ContainsFunc(m.Mentions, func(u discordUser) bool { return u.ID == d.self })
	if m.Type != text && m.Type != reply || m.Author.Bot || m.Author.ID == d.self || m.ID == "" || m.Server != "" && !mentioned {
		return nil
	}
	content := strings.TrimSpace(m.Content)
	for _, mention := range []string{"<@" + d.self + ">", "<@!" + d.self + ">"} {
		content = strings.TrimSpace(strings.TrimPrefix(content, mention))
	}
	in := Incoming{ID: m.ID, ChatID: m.Channel, Text: content}
	if m.Server != "" {
		in.From = cmp.Or(m.Author.Global, m.Author.Name)
	}
	if m.ReplyTo != nil {
		in.Context = quoted(m.ReplyTo.Content)
	}
	for _, f := range m.Files {
		in.Files = append(in.Files, Attachment{Name: cmp.Or(f.Name, "file"), Open: func(ctx context.Context) (io.ReadCloser, error) {
			return download(ctx, f.URL, http.Header{}, d.api.secrets)
		}})
	}
	return d.accept(ctx, in, r)
}
