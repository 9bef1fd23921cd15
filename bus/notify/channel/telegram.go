package channel

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
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// telegramLimit and telegramCaption bound a message and the caption of a file,
	// in UTF-16 units, as the Bot API counts.
	telegramLimit   = 4096
	telegramCaption = 1024
	// telegramMessages is the maximum number of messages for a text; a longer text
	// is sent as a file.
	telegramMessages = 4
	// telegramEntities is the maximum number of styled parts in a message.
	telegramEntities = 100
)

// TelegramConfig configures a Telegram channel.
type TelegramConfig struct {
	// Chat is the default chat: an id or @CHANNEL.
	Chat string
	// Allow lists other chats that the bot sends to, separated by ";"; "*" means all.
	// The bot receives messages only from Chat and from the chats that are listed.
	Allow string
	// Server is the URL of another Bot API server. Default
	// https://api.telegram.org.
	Server string
}

// Telegram sends notifications as a bot. The Bot API takes no idempotency key: if
// a response is lost, the message appears twice.
type Telegram struct {
	bot     *bot.Bot
	api     string        // URL of a method, without its name
	poll    limitedClient // without a timeout: the Bot API keeps a request open
	chat    string
	allow   chatList
	secrets secrets
	sent    partsSent
	name    string // of the bot, without @; empty until Receive needs it
}

// NewTelegram returns a channel for the bot of a token. It does not connect.
func NewTelegram(token string, cfg TelegramConfig) (*Telegram, error) {
	opts := []bot.Option{bot.WithSkipGetMe(), bot.WithHTTPClient(sendTimeout, limitedClient{&http.Client{Timeout: sendTimeout, Transport: transport}}),
		bot.WithErrorsHandler(func(error) {})} // they come from polling, which is not used
	server := "https://api.telegram.org"
	if cfg.Server != "" {
		server = strings.TrimSuffix(cfg.Server, "/")
		opts = append(opts, bot.WithServerURL(server))
	}
	b, err := bot.New(token, opts...)
	if err != nil {
		return nil, fmt.Errorf("telegram: %s", secretsOf(nil, token).hide(err.Error()))
	}
	return &Telegram{
		bot: b, chat: cfg.Chat, allow: parseChats(cfg.Allow, cfg.Chat),
		api: server + "/bot" + token + "/", poll: limitedClient{&http.Client{Transport: transport}},
		secrets: secretsOf(nil, token, "/bot"+token+"/sendMessage", "/bot"+token+"/sendDocument"),
	}, nil
}

// Send sends n as one or more messages, or as a file if it is long. The text
// contains no markup. Its styles are separate entities, so that the Bot API
// accepts any text.
func (t *Telegram) Send(ctx context.Context, n Notification) error {
	chat := n.ChatID
	if chat == "" {
		chat = t.chat
	}
	if chat == "" {
		return bus.Reject("no_chat", errors.New("send to telegram: neither the notification nor the channel names a chat"))
	}
	if err := t.CheckChat(chat); err != nil {
		return bus.Reject("refused_chat", err)
	}
	text := chatText(n, false).WithHosts()
	parts := text.Split(telegramLimit, markup.InUTF16)
	if len(parts) > telegramMessages {
		err := t.sendFile(ctx, chat, n, text)
		if !errors.Is(err, bot.ErrorBadRequest) { // the chat may not allow files
			return t.classify(err)
		}
	}
	last := parts[len(parts)-1].Text
	return sendParts(&t.sent, n, parts, func(part markup.Styled) error {
		var buttons models.ReplyMarkup
		if part.Text == last {
			buttons = approvalButtons(n)
		}
		err := t.sendMessage(ctx, chat, part, buttons)
		if errors.Is(err, bot.ErrorBadRequest) && len(part.Spans) > 0 { // try without styles
			err = t.sendMessage(ctx, chat, markup.Styled{Text: part.Text}, buttons)
		}
		return t.classify(err)
	})
}

// CheckChat returns an error if the channel does not send to a chat.
func (t *Telegram) CheckChat(chat string) error {
	if chat == "" || t.allow.maySend(chat) {
		return nil
	}
	return fmt.Errorf("send to telegram: the channel does not send to the chat %q; to allow it, add it to the setting allow of the channel", tools.Excerpt(tools.EscapeLine(chat), 80))
}

func (t *Telegram) sendMessage(ctx context.Context, chat string, part markup.Styled, buttons models.ReplyMarkup) error {
	disabled := true
	_, err := t.bot.SendMessage(ctx, &bot.SendMessageParams{
		ChatID: chatID(chat), Text: part.Text, Entities: entities(part), ReplyMarkup: buttons,
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: &disabled},
	})
	return err
}

// sendFile sends the whole text as a file, with its start as the caption.
func (t *Telegram) sendFile(ctx context.Context, chat string, n Notification, text markup.Styled) error {
	name, content := "message.txt", text.Text
	if n.Format == FormatMarkdown {
		name, content = "message.md", chatText(n, true).Text
	}
	caption := text.Split(telegramCaption, markup.InUTF16)[0]
	_, err := t.bot.SendDocument(ctx, &bot.SendDocumentParams{
		ChatID: chatID(chat), Caption: caption.Text, CaptionEntities: entities(caption),
		Document: &models.InputFileUpload{Filename: name, Data: strings.NewReader(content)},
	})
	return err
}

var entityTypes = map[markup.Style]models.MessageEntityType{
	markup.Bold: models.MessageEntityTypeBold, markup.Italic: models.MessageEntityTypeItalic, markup.Strike: models.MessageEntityTypeStrikethrough,
	markup.Code: models.MessageEntityTypeCode, markup.Block: models.MessageEntityTypePre, markup.Link: models.MessageEntityTypeTextLink,
}

// entities returns the styles of a text, in UTF-16 units.
func entities(s markup.Styled) (all []models.MessageEntity) {
	for _, sp := range s.Spans {
		if sp.Style != markup.Code && sp.Style != markup.Block && slices.ContainsFunc(s.Spans, sp.HoldsCode) {
			continue // the Bot API allows no style around code
		}
		if len(all) == telegramEntities {
			break
		}
		all = append(all, models.MessageEntity{
			Type: entityTypes[sp.Style], URL: sp.URL, Offset: markup.Size(s.Text[:sp.From], markup.InUTF16), Length: markup.Size(s.Text[sp.From:sp.To], markup.InUTF16),
		})
	}
	return all
}

// chatID returns a numeric id as a number, as the Bot API requires.
func chatID(chat string) any {
	if id, err := strconv.ParseInt(chat, 10, 64); err == nil {
		return id
	}
	return chat
}

// classify turns err into a rejection if a retry cannot succeed.
func (t *Telegram) classify(err error) error {
	if err == nil {
		return nil
	}
	safe := fmt.Errorf("send to telegram: %s", t.secrets.hideCause(err))
	if tooMany, ok := errors.AsType[*bot.TooManyRequestsError](err); ok {
		seconds := min(max(tooMany.RetryAfter, 1), int(maxPause/time.Second))
		return bus.RetryAfter(time.Duration(seconds)*time.Second, safe)
	}
	if _, ok := errors.AsType[*bot.MigrateError](err); ok {
		return bus.Reject("chat_moved", safe)
	}
	for _, final := range []struct {
		err  error
		code string
	}{
		{bot.ErrorForbidden, "refused_403"}, {bot.ErrorBadRequest, "refused_400"},
		{bot.ErrorUnauthorized, "refused_401"}, {bot.ErrorNotFound, "refused_404"},
	} {
		if errors.Is(err, final.err) {
			return bus.Reject(final.code, safe)
		}
	}
	return safe
}

// limitedClient limits the size of responses.
type limitedClient struct{ client *http.Client }

func (c limitedClient) Do(req *http.Request) (*http.Response, error) {
	res, err := c.client.Do(req)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, 4<<20), res.Body}
	}
	return res, err
}
