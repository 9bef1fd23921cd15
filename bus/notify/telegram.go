package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/stevedore-bus/stevedore/bus"
)

// telegramLimit is in UTF-16 units, as the Bot API counts.
const telegramLimit = 4096

// TelegramConfig describes a Telegram channel.
type TelegramConfig struct {
	// Chat is where notifications go that name no chat: an id, or @CHANNEL.
	Chat string
	// Server replaces https://api.telegram.org, for a Bot API server of one's
	// own.
	Server string
}

// Telegram sends notifications as a bot. The Bot API takes no idempotency key:
// after an answer that was lost, a message comes twice.
type Telegram struct {
	bot   *bot.Bot
	chat  string
	token string
	sent  progress
}

// NewTelegram returns a channel for the bot of a token. It does not connect.
func NewTelegram(token string, cfg TelegramConfig) (*Telegram, error) {
	opts := []bot.Option{bot.WithSkipGetMe(), bot.WithHTTPClient(sendTimeout, bounded{&http.Client{Timeout: sendTimeout}}),
		bot.WithErrorsHandler(func(error) {})} // those of polling, which is not done
	if cfg.Server != "" {
		opts = append(opts, bot.WithServerURL(strings.TrimSuffix(cfg.Server, "/")))
	}
	b, err := bot.New(token, opts...)
	if err != nil {
		return nil, fmt.Errorf("telegram: %s", redact(err.Error(), []string{token}))
	}
	return &Telegram{bot: b, chat: cfg.Chat, token: token}, nil
}

// Send sends n as plain text, so that nothing in it is markup, in as many
// messages as it takes.
func (t *Telegram) Send(ctx context.Context, n Notification) error {
	chat := n.ChatID
	if chat == "" {
		chat = t.chat
	}
	if chat == "" {
		return bus.Reject("no_chat", errors.New("send to telegram: neither the notification nor the channel names a chat"))
	}
	return t.sent.parts(n.ID, split(chatText(n), telegramLimit, inUTF16), func(part string) error {
		disabled := true
		_, err := t.bot.SendMessage(ctx, &bot.SendMessageParams{
			ChatID: chatID(chat), Text: part,
			LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: &disabled},
		})
		return t.verdict(err)
	})
}

// chatID is a number where it is one: the Bot API knows names as text only.
func chatID(chat string) any {
	if id, err := strconv.ParseInt(chat, 10, 64); err == nil {
		return id
	}
	return chat
}

// verdict tells what may heal from what will not.
func (t *Telegram) verdict(err error) error {
	if err == nil {
		return nil
	}
	told := fmt.Errorf("send to telegram: %w", withoutURL(err, []string{t.token}))
	if tooMany, ok := errors.AsType[*bot.TooManyRequestsError](err); ok {
		seconds := min(max(tooMany.RetryAfter, 1), int(maxPause/time.Second))
		return bus.RetryAfter(time.Duration(seconds)*time.Second, told)
	}
	if _, ok := errors.AsType[*bot.MigrateError](err); ok {
		return bus.Reject("chat_moved", told)
	}
	for _, final := range []struct {
		err  error
		code string
	}{
		{bot.ErrorForbidden, "refused_403"}, {bot.ErrorBadRequest, "refused_400"},
		{bot.ErrorUnauthorized, "refused_401"}, {bot.ErrorNotFound, "refused_404"},
	} {
		if errors.Is(err, final.err) {
			return bus.Reject(final.code, told)
		}
	}
	return told
}

// bounded is an HTTP client that reads no endless answers.
type bounded struct{ client *http.Client }

func (b bounded) Do(req *http.Request) (*http.Response, error) {
	res, err := b.client.Do(req)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, 1<<20), res.Body}
	}
	return res, err
}
