package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
)

// BotConfig configures the bot of a platform.
type BotConfig struct {
	// Chat is the id of the default chat; in Telegram, it may be @CHANNEL.
	Chat string
	// Allow lists other chats that the bot sends to, separated by ";"; "*" means all.
	// The bot receives messages only from Chat and from the chats that are listed.
	Allow string
	// Server is the URL of another server of the web API, such as https://HOST.
	Server string
}

// bot sends to the chats of a platform as a user of its own, and receives from them over a
// WebSocket. Each platform embeds it.
type bot struct {
	chats
	shape shape
	api   *poster // its URL is that of the web API
	sent  partsSent
	platform
}

// platform is the web API of a platform. Its errors follow the rules of Channel.
type platform interface {
	// put sends a message and returns its id, or edits the message id. key is the same for
	// each attempt.
	put(ctx context.Context, chat, id, key, text string, markdown bool) (string, error)
	putFile(ctx context.Context, chat, key string, f *Document) error
	RemoveDraft(ctx context.Context, chat, id string) error
}

func newBot(kind, server string, cfg BotConfig, token string, more ...string) (*bot, error) {
	api, err := newPoster(cmp.Or(strings.TrimSuffix(cfg.Server, "/"), server))
	if err == nil && token == "" {
		err = errors.New("the token is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	api.secrets = secretsOf(nil, append(more, token)...) // errors may show the URL
	return &bot{chats: chats{kind, cfg.Chat, parseChats(cfg.Allow, cfg.Chat)}, shape: shapes[kind], api: api}, nil
}

// Send sends n as one or more messages.
func (b *bot) Send(ctx context.Context, n Notification) error {
	chat, err := b.destination(n)
	if err != nil {
		return err
	}
	write, parts := b.shape.parts(n)
	return sendParts(&b.sent, n, parts, func(i int, part markup.Styled, replaced string) error {
		_, err := b.put(ctx, chat, replaced, fmt.Sprintf("%s %d", n.ID, i), write(part), n.Format == FormatMarkdown)
		return err
	}, func(f *Document) error { return b.putFile(ctx, chat, n.ID+" file", f) })
}

// ShowDraft implements DraftChannel. A run that has only begun shows nothing.
func (b *bot) ShowDraft(ctx context.Context, chat, id string, draft Draft) (string, error) {
	if draft == (Draft{}) {
		return id, nil
	}
	n := draft.notification()
	write, parts := b.shape.parts(n)
	return b.put(ctx, chat, id, "", write(parts[0]), n.Format == FormatMarkdown)
}

// isGone reports whether err says that a message does not exist.
func isGone(err error) bool {
	code, _ := bus.Rejected(err)
	return code == "refused_404" || code == "refused_message_not_found"
}

// maxFrame bounds a message of a WebSocket, in bytes.
const maxFrame = 4 << 20

// connect opens a WebSocket and runs both functions until one of them fails.
func (b *bot) connect(ctx context.Context, url string, receive, beat func(ctx context.Context, conn *websocket.Conn) error) error {
	dialing, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	conn, res, err := websocket.Dial(dialing, url, &websocket.DialOptions{HTTPClient: b.api.client})
	if err != nil {
		cause := fmt.Errorf("connect to %s: %s", b.kind, secretsOf(nil, url).hideCause(err))
		if res != nil {
			return classify(res, cause)
		}
		return cause
	}
	defer func() { _ = conn.CloseNow() }() // without a close frame, so that Discord keeps the session
	conn.SetReadLimit(maxFrame)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return receive(ctx, conn) })
	group.Go(func() error { return beat(ctx, conn) })
	return group.Wait()
}

// write sends m as JSON.
func (b *bot) write(ctx context.Context, conn *websocket.Conn, m any) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return wsjson.Write(ctx, conn, m)
}

// accept passes a message on, unless it is empty or its chat is not allowed. An error means that it
// must be handled again.
func (b *bot) accept(ctx context.Context, in Incoming, r *reception) error {
	switch {
	case !b.allow.mayReceive(in.ChatID):
		r.ignore(in.ChatID, "message")
		return nil
	case in.Text == "" && in.Files == nil:
		return nil
	}
	if err := r.accept(ctx, in); err != nil {
		return err
	}
	return r.SetPosition(ctx, in.ChatID, in.ID)
}

// catchUp passes on the messages of each chat that were written while the bot was not
// connected. history returns those after a position, oldest first, and the next position;
// without a position, it returns no messages. So a bot does not answer what was written
// before it came.
//
// Without handle, which is before the bot connects, catchUp only sets the positions of the chats
// that have none: a process that dies before it has accepted the first message of a chat finds
// that message after the position.
func catchUp[M any](ctx context.Context, b *bot, r *reception, history func(ctx context.Context, chat, position string) ([]M, string, error), handle func(M) error) error {
	for _, chat := range b.allow.named() {
		position, err := r.Position(ctx, chat)
		if err != nil {
			return err
		}
		if (position == "") != (handle == nil) {
			continue
		}
		missed, position, err := history(ctx, chat, position)
		if _, refused := bus.Rejected(err); refused {
			r.log.Warn().Err(err).Str("chat", chat).Msg("cannot read the messages that were written while the bot was not connected")
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range missed {
			if err := handle(m); err != nil {
				return err
			}
		}
		if err := r.SetPosition(ctx, chat, position); err != nil {
			return err
		}
	}
	return nil
}
