package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/stevedore-bus/stevedore/bus"
)

const (
	// telegramLimit and telegramCaption bound a message and what stands below a
	// file, in UTF-16 units, as the Bot API counts.
	telegramLimit   = 4096
	telegramCaption = 1024
	// telegramMessages is how many messages a text may take; a longer one is
	// sent as a file.
	telegramMessages = 4
	// telegramEntities is how many styled parts of a message are looked at.
	telegramEntities = 100
)

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
	bot     *bot.Bot
	chat    string
	secrets secrets
	sent    progress
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
		return nil, fmt.Errorf("telegram: %s", secretsOf(nil, token).hide(err.Error()))
	}
	return &Telegram{bot: b, chat: cfg.Chat, secrets: secretsOf(nil, token, "/bot"+token+"/sendMessage", "/bot"+token+"/sendDocument")}, nil
}

// Send sends n in as many messages as it takes, or as a file if they would be
// many. Nothing in the text is markup: styles go beside it, so that there is no
// text that the Bot API could not read.
func (t *Telegram) Send(ctx context.Context, n Notification) error {
	chat := n.ChatID
	if chat == "" {
		chat = t.chat
	}
	if chat == "" {
		return bus.Reject("no_chat", errors.New("send to telegram: neither the notification nor the channel names a chat"))
	}
	text := chatText(n, false)
	parts := text.split(telegramLimit, inUTF16)
	if len(parts) > telegramMessages {
		err := t.sendFile(ctx, chat, n, text)
		if !errors.Is(err, bot.ErrorBadRequest) { // files may not be welcome; messages are
			return t.verdict(err)
		}
	}
	return sendParts(&t.sent, n.ID, parts, func(part styled) error {
		err := t.sendMessage(ctx, chat, part)
		if errors.Is(err, bot.ErrorBadRequest) && len(part.spans) > 0 { // perhaps its styles are not liked
			err = t.sendMessage(ctx, chat, styled{text: part.text})
		}
		return t.verdict(err)
	})
}

func (t *Telegram) sendMessage(ctx context.Context, chat string, part styled) error {
	disabled := true
	_, err := t.bot.SendMessage(ctx, &bot.SendMessageParams{
		ChatID: chatID(chat), Text: part.text, Entities: entities(part),
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: &disabled},
	})
	return err
}

// sendFile sends the whole text as a file, under its beginning.
func (t *Telegram) sendFile(ctx context.Context, chat string, n Notification, text styled) error {
	name, content := "message.txt", text.text
	if n.Format == FormatMarkdown {
		name, content = "message.md", chatText(n, true).text
	}
	caption := text.split(telegramCaption, inUTF16)[0]
	_, err := t.bot.SendDocument(ctx, &bot.SendDocumentParams{
		ChatID: chatID(chat), Caption: caption.text, CaptionEntities: entities(caption),
		Document: &models.InputFileUpload{Filename: name, Data: strings.NewReader(content)},
	})
	return err
}

var entityTypes = map[style]models.MessageEntityType{
	bold: models.MessageEntityTypeBold, italic: models.MessageEntityTypeItalic, strike: models.MessageEntityTypeStrikethrough,
	code: models.MessageEntityTypeCode, block: models.MessageEntityTypePre, link: models.MessageEntityTypeTextLink,
}

// entities says in UTF-16 units what is special about a text.
func entities(s styled) (all []models.MessageEntity) {
	for _, sp := range s.spans {
		if sp.style != code && sp.style != block && slices.ContainsFunc(s.spans, sp.holdsCode) {
			continue // the Bot API has no style around code
		}
		if len(all) == telegramEntities {
			break
		}
		all = append(all, models.MessageEntity{
			Type: entityTypes[sp.style], URL: sp.url, Offset: size(s.text[:sp.from], inUTF16), Length: size(s.text[sp.from:sp.to], inUTF16),
		})
	}
	return all
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
	told := fmt.Errorf("send to telegram: %s", t.secrets.cause(err))
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
