package channel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
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

// Telegram sends notifications as a bot. The Bot API takes no idempotency key: if
// a response is lost, the message appears twice.
type Telegram struct {
	chats
	api  *poster // its URL is that of a method, without its name
	sent partsSent
	name string // of the bot, without @; empty until Receive needs it
}

// BotConfig configures the bot of a platform.
type BotConfig struct {
	// Chat is the id of the default chat; in Telegram, it may be @CHANNEL.
	Chat string
	// Allow lists other chats that the bot sends to, separated by ";"; "*" means all.
	// The bot receives messages only from Chat and from the chats that are listed.
	Allow string
	// Server is the URL of another server of the web API, such as https://HOST.
	Server string
	// Transport sends all requests. Nil means that of the other channels.
	Transport http.RoundTripper
}

// NewTelegram returns a channel for the bot of a token. It does not connect.
func NewTelegram(token string, cfg BotConfig) (*Telegram, error) {
	path := "/bot" + token + "/"
	api, err := newPoster(cmp.Or(strings.TrimSuffix(cfg.Server, "/"), "https://api.telegram.org"))
	if err == nil && token == "" {
		err = errors.New("the token is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	if cfg.Transport != nil {
		api.client.Transport = cfg.Transport
	}
	api.secrets = secretsOf(nil, token, path+"sendMessage", path+"sendDocument") // errors may show the URL
	api.url += path
	return &Telegram{chats: chats{kind: "telegram", chat: cfg.Chat, allow: parseChats(cfg.Allow, cfg.Chat)}, api: api}, nil
}

// Send sends n as one or more messages, or as a file if it is long. The text
// contains no markup. Its styles are separate entities, so that the Bot API
// accepts any text.
func (t *Telegram) Send(ctx context.Context, n Notification) error {
	chat, err := t.destination(n)
	if err != nil {
		return err
	}
	text := chatText(n, false).WithHosts()
	parts := text.Split(telegramLimit, markup.InUTF16)
	if key := n.Digest(); len(parts) > telegramMessages && t.sent.get(key) == 0 {
		if n.Replaces != "" { // first: after a failure, the file would be sent again
			if err := t.RemoveDraft(ctx, chat, n.Replaces); err != nil {
				return err
			}
		}
		err := t.sendText(ctx, chat, n, text)
		switch {
		case err == nil:
			t.sent.set(key, len(parts))
		case !isBadRequest(err): // the chat may not allow files
			return err
		}
	}
	return sendParts(&t.sent, n, parts, func(i int, part markup.Styled) error {
		draft, buttons := "", ""
		if i == 0 {
			draft = n.Replaces
		}
		if i == len(parts)-1 {
			buttons = approvalButtons(n)
		}
		_, err := t.put(ctx, chat, draft, part, buttons)
		if _, refused := consume.Rejected(err); refused && draft != "" { // if it is there, the answer comes instead of it
			if err = t.RemoveDraft(ctx, chat, draft); err == nil {
				_, err = t.put(ctx, chat, "", part, buttons)
			}
		}
		return err
	}, func(f *Document) error {
		return t.send(ctx, "sendDocument", map[string]string{"chat_id": chat}, f, nil)
	})
}

// MaxFile implements FileChannel; see https://core.telegram.org/bots/api#senddocument
func (t *Telegram) MaxFile() int64 { return 50 << 20 }

// put sends a message and returns its id, or edits the message id. If the server does not
// accept the styles, it sends the text without.
func (t *Telegram) put(ctx context.Context, chat, id string, part markup.Styled, buttons string) (string, error) {
	text, _ := part.Quotes()
	fields := map[string]string{
		"chat_id": chat, "message_id": id, "text": text.Text, "entities": entities(part), "reply_markup": buttons, "link_preview_options": `{"is_disabled":true}`,
	}
	var sent telegramMessage
	method, result := "sendMessage", any(&sent)
	if id != "" {
		method, result = "editMessageText", nil
	}
	err := t.send(ctx, method, fields, nil, result)
	if isBadRequest(err) && len(part.Spans) > 0 && !isUnmodified(err) {
		fields["entities"] = ""
		err = t.send(ctx, method, fields, nil, result)
	}
	if isUnmodified(err) {
		err = nil
	}
	return cmp.Or(id, strconv.FormatInt(sent.ID, 10)), err
}

// isUnmodified reports whether an edit has failed because the message has the text already.
func isUnmodified(err error) bool {
	return isBadRequest(err) && strings.Contains(err.Error(), "message is not modified")
}

// sendText sends the whole text as a file, with its start as the caption.
func (t *Telegram) sendText(ctx context.Context, chat string, n Notification, text markup.Styled) error {
	name, content := "message.txt", text.Text
	if n.Format == FormatMarkdown {
		name, content = "message.md", chatText(n, true).Text
	}
	caption := text.Split(telegramCaption, markup.InUTF16)[0]
	shown, _ := caption.Quotes()
	return t.send(ctx, "sendDocument", map[string]string{"chat_id": chat, "caption": shown.Text,
		"caption_entities": entities(caption)}, &Document{Name: name, Size: int64(len(content)), Content: strings.NewReader(content)}, nil)
}

// telegramEntity is the style of a part of a text, in UTF-16 units.
type telegramEntity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	URL    string `json:"url,omitempty"`
	// Language of code.
	Language string `json:"language,omitempty"`
}

var entityTypes = map[markup.Style]string{
	markup.Bold: "bold", markup.Italic: "italic", markup.Strike: "strikethrough", markup.Code: "code", markup.Block: "pre", markup.Link: "text_link",
}

// entities returns the styles of a text without the marks of its quotes as JSON, or "" if it has
// none.
func entities(styled markup.Styled) string {
	var all []telegramEntity
	s, quotes := styled.Quotes()
	add := func(kind string, sp markup.Span) {
		all = append(all, telegramEntity{kind, markup.Size(s.Text[:sp.From], markup.InUTF16), markup.Size(s.Text[sp.From:sp.To],
			markup.InUTF16), sp.URL, sp.Language})
	}
	for _, sp := range quotes[:min(len(quotes), telegramEntities/2)] {
		add("blockquote", sp)
	}
	for _, sp := range s.Spans {
		if sp.Style != markup.Code && sp.Style != markup.Block && slices.ContainsFunc(s.Spans, sp.HoldsCode) {
			continue // the Bot API allows no style around code
		}
		if len(all) == telegramEntities {
			break
		}
		add(entityTypes[sp.Style], sp)
	}
	if all == nil {
		return ""
	}
	body, _ := json.Marshal(all) // texts and numbers do not fail
	return string(body)
}

// approvalButtons returns the keyboard of a question as JSON, or "" if n is none.
func approvalButtons(n Notification) string {
	if n.Approval == nil {
		return ""
	}
	key := ApprovalKey(n.Approval.Session, n.Approval.ID)
	return fmt.Sprintf(`{"inline_keyboard":[[{"text":"✅ Yes","callback_data":"yes:%s"},{"text":"❌ No","callback_data":"no:%[1]s"}]]}`, key)
}

// ShowDraft implements DraftChannel. Of a run that has only begun, the chat shows "typing".
func (t *Telegram) ShowDraft(ctx context.Context, chat, id string, draft Draft) (string, error) {
	if draft == (Draft{}) {
		return id, t.request(ctx, "sendChatAction", object{"chat_id": chat, "action": "typing"}, nil)
	}
	text := chatText(draft.notification(), false).WithHosts()
	return t.put(ctx, chat, id, text.Split(telegramLimit, markup.InUTF16)[0], "")
}

// RemoveDraft implements DraftChannel.
func (t *Telegram) RemoveDraft(ctx context.Context, chat, id string) error {
	err := t.request(ctx, "deleteMessage", object{"chat_id": chat, "message_id": json.Number(id)}, nil)
	if _, refused := consume.Rejected(err); refused {
		return nil // the user has deleted it, or it is too old
	}
	return err
}
