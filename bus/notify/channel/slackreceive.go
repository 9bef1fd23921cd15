package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// pingInterval is how often the bot checks that a connection to Slack still works.
	pingInterval = 30 * time.Second
	// pongTimeout is how long the answer may take: the bot does not read it while it stores a
	// message with its files.
	pongTimeout = 5 * time.Minute
)

// slackEnvelope is a message of Socket Mode.
type slackEnvelope struct {
	ID      string `json:"envelope_id"`
	Type    string `json:"type"`
	Payload struct {
		Event slackMessage `json:"event"`
	} `json:"payload"`
}

type slackMessage struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Channel string `json:"channel"`
	User    string `json:"user"`
	BotID   string `json:"bot_id"`
	Text    string `json:"text"`
	TS      string `json:"ts"`
	Files   []struct {
		Name string `json:"name"`
		URL  string `json:"url_private_download"`
	} `json:"files"`
}

// Receive passes the messages of allowed chats to inbox until ctx ends, by Socket Mode. In
// direct messages these are all, elsewhere those that mention the bot.
//
// Slack sends an event again if it is not confirmed, and Receive confirms it when inbox has
// accepted it. Slack sends no events while the bot is not connected, so Receive reads what
// has been written since the last accepted message when it connects.
func (s *Slack) Receive(ctx context.Context, inbox Inbox, log zerolog.Logger) error {
	r := newReception(inbox, log)
	return r.again(ctx, func(ctx context.Context, healthy func()) error {
		return s.receive(ctx, r, healthy)
	})
}

// CheckReceive returns an error if the channel would accept no message.
func (s *Slack) CheckReceive() error {
	if s.appToken == "" {
		return errors.New("the setting apptoken is required to receive messages")
	}
	return s.bot.CheckReceive()
}

// receive receives over one connection.
func (s *Slack) receive(ctx context.Context, r *reception, healthy func()) error {
	var self struct {
		User string `json:"user_id"`
	}
	if err := s.call(ctx, s.token, "auth.test", nil, &self); err != nil {
		return err
	}
	s.self = self.User
	if err := catchUp(ctx, s.bot, r, s.history, nil); err != nil {
		return err
	}
	var open struct {
		URL string `json:"url"`
	}
	if err := s.call(ctx, s.appToken, "apps.connections.open", nil, &open); err != nil {
		return err
	}
	return s.connect(ctx, open.URL, func(ctx context.Context, conn *websocket.Conn) error {
		for {
			if err := s.next(ctx, conn, r); err != nil {
				return err
			}
			healthy()
		}
	}, func(ctx context.Context, conn *websocket.Conn) error {
		for {
			if err := tools.Sleep(ctx, pingInterval); err != nil {
				return err
			}
			limited, cancel := context.WithTimeout(ctx, pongTimeout)
			err := conn.Ping(limited)
			cancel()
			if err != nil {
				return fmt.Errorf("receive from slack: no answer to a ping: %w", err)
			}
		}
	})
}

// next handles the next message of a connection.
func (s *Slack) next(ctx context.Context, conn *websocket.Conn, r *reception) error {
	var e slackEnvelope
	if err := wsjson.Read(ctx, conn, &e); err != nil {
		return err
	}
	var err error
	switch e.Type {
	case "hello":
		err = catchUp(ctx, s.bot, r, s.history, func(m slackMessage) error { return s.handle(ctx, m, r) })
	case "disconnect":
		err = errReconnect
	case "events_api":
		err = s.handle(ctx, e.Payload.Event, r)
	}
	if err == nil && e.ID != "" {
		err = s.write(ctx, conn, object{"envelope_id": e.ID})
	}
	return err
}

// history reads the messages of a chat; see catchUp.
func (s *Slack) history(ctx context.Context, chat, position string) (missed []slackMessage, next string, err error) {
	params := url.Values{"channel": {chat}, "oldest": {position}, "limit": {"200"}}
	if position == "" {
		params.Set("limit", "1")
	}
	next = cmp.Or(position, "0")
	for {
		var page struct {
			Messages []slackMessage `json:"messages"` // newest first
			Metadata struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if err := s.call(ctx, s.token, "conversations.history", params, &page); err != nil {
			return nil, "", err
		}
		for _, m := range page.Messages {
			m.Type, m.Channel, next = "message", chat, max(next, m.TS)
			missed = append(missed, m)
		}
		if position == "" {
			return nil, next, nil
		}
		if page.Metadata.Cursor == "" {
			slices.Reverse(missed)
			return missed, next, nil
		}
		params.Set("cursor", page.Metadata.Cursor)
	}
}

// handle passes one message on. An error means that the message must be handled again.
func (s *Slack) handle(ctx context.Context, m slackMessage, r *reception) error {
	isText := m.Subtype == "" || m.Subtype == "file_share" || m.Subtype == "thread_broadcast"
	if m.Type != "message" && m.Type != "app_mention" || !isText || m.BotID != "" || m.User == "" || m.User == s.self || m.TS == "" {
		return nil
	}
	mention := "<@" + s.self + ">"
	direct := strings.HasPrefix(m.Channel, "D")
	if !direct && !strings.Contains(m.Text, mention) {
		return nil
	}
	in := Incoming{ID: m.TS, ChatID: m.Channel, Text: slackPlain(strings.TrimPrefix(strings.TrimSpace(m.Text), mention))}
	if !direct {
		in.From = m.User
	}
	for _, f := range m.Files {
		in.Files = append(in.Files, Attachment{Name: cmp.Or(f.Name, "file"), Open: func(ctx context.Context) (io.ReadCloser, error) {
			return s.file(ctx, f.URL)
		}})
	}
	return s.accept(ctx, in, r)
}

// file opens a file of Slack. Messages may also name files at other hosts, which must not see
// the token.
func (s *Slack) file(ctx context.Context, address string) (io.ReadCloser, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host != s.api.host && (u.Scheme != "https" || !strings.HasSuffix(u.Host, ".slack.com")) {
		return nil, bus.Reject("no_file", fmt.Errorf("it is not stored at Slack"))
	}
	return download(ctx, address, http.Header{"Authorization": {"Bearer " + s.token}}, s.api.secrets)
}

// slackLink is a link, a mention or a command: <URL|LABEL>, <@USER>, <!here>.
var slackLink = regexp.MustCompile(`<([^<>|]+)(?:\|([^<>]*))?>`)

// slackPlain returns the plain text of a message.
func slackPlain(text string) string {
	text = slackLink.ReplaceAllStringFunc(text, func(link string) string {
		match := slackLink.FindStringSubmatch(link)
		if target, label := match[1], match[2]; label != "" && label != target && strings.Contains(target, "://") {
			return label + " (" + target + ")"
		}
		return match[1]
	})
	return strings.TrimSpace(html.UnescapeString(text))
}
