package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	// pollTimeout is how long the Bot API waits for an update before it answers.
	pollTimeout = 50 * time.Second
	// pollUpdates is the number of updates in an answer.
	pollUpdates = 20
)

// Receive passes the messages of allowed chats to inbox until ctx ends, by long polling.
// Messages of other chats get no answer and are logged.
//
// The Bot API stores an update until the next request confirms it, and that request is
// sent when inbox has accepted the update. So no message is lost if the process dies; an
// update that arrives again is accepted again, without effect. If several processes
// receive for one bot, the Bot API ends the request of one when another one asks, and each
// update still becomes one call.
func (t *Telegram) Receive(ctx context.Context, inbox Inbox, log zerolog.Logger) error {
	r, offset := newReception(inbox, log), int64(0)
	return r.again(ctx, func(ctx context.Context, healthy func()) error {
		updates, err := t.updates(ctx, offset)
		if err != nil {
			return err
		}
		// Confirm updates once, and do not send an old offset later: after a week
		// without updates, the Bot API may begin with lower numbers, and an offset
		// above them would delete them.
		offset = 0
		for _, u := range updates {
			if err = t.handle(ctx, u, r); err != nil {
				break
			}
			offset = u.ID + 1
		}
		if err == nil {
			healthy()
		}
		return err
	})
}

// telegramUpdate has the fields that Receive reads.
type telegramUpdate struct {
	ID       int64            `json:"update_id"`
	Message  *telegramMessage `json:"message"`
	Callback *struct {
		ID      string           `json:"id"`
		From    telegramUser     `json:"from"`
		Message *telegramMessage `json:"message"`
		Data    string           `json:"data"`
	} `json:"callback_query"`
}

type telegramUser struct {
	ID        int64  `json:"id"`
	FirstName string `json:"first_name"`
	Username  string `json:"username"`
}

type telegramMessage struct {
	ID   int64        `json:"message_id"`
	From telegramUser `json:"from"`
	Chat struct {
		ID       int64  `json:"id"`
		Type     string `json:"type"`
		Username string `json:"username"`
	} `json:"chat"`
	Text    string           `json:"text"`
	Caption string           `json:"caption"`
	ReplyTo *telegramMessage `json:"reply_to_message"`
	// Content that is not text. The agent gets the first three.
	Photo                                    []telegramFile
	Document, Voice                          *telegramFile
	Audio, Video, Sticker, Location, Contact json.RawMessage
}

// updates gets the next updates, and confirms those before offset.
func (t *Telegram) updates(ctx context.Context, offset int64) ([]telegramUpdate, error) {
	var raw []json.RawMessage
	params := object{"timeout": int(pollTimeout / time.Second), "limit": pollUpdates, "allowed_updates": []string{"message", "callback_query"}}
	if offset > 0 {
		params["offset"] = offset
	}
	if err := t.request(ctx, "getUpdates", params, &raw); err != nil {
		return nil, err
	}
	var updates []telegramUpdate
	for _, data := range raw {
		var u telegramUpdate
		if err := json.Unmarshal(data, &u); err != nil {
			u = telegramUpdate{}
			var id struct {
				ID int64 `json:"update_id"`
			}
			if json.Unmarshal(data, &id) != nil || id.ID == 0 {
				continue
			}
			u.ID = id.ID // skip it, or it would arrive for ever
		}
		updates = append(updates, u)
	}
	return updates, nil
}

// handle passes one update on. An error means that the update must be handled again.
func (t *Telegram) handle(ctx context.Context, u telegramUpdate, r *reception) error {
	switch {
	case u.Message != nil:
		chat, ok := t.allowedChat(u.Message)
		if !ok {
			r.ignore(chat, u.Message.Chat.Type)
			return nil
		}
		message := u.Message.incoming(chat)
		message.Files, message.Voice = t.files(u.Message), t.voice(u.Message)
		if message.Text == "" && message.Context == "" && message.Files == nil && message.Voice == nil {
			return nil // for example, somebody joined the group
		}
		if other, err := t.isForOtherBot(ctx, message.Text); other || err != nil {
			return err
		}
		return r.accept(ctx, message)
	case u.Callback != nil:
		return t.decide(ctx, u, r)
	}
	r.log.Warn().Int64("update", u.ID).Msg("ignored an update that cannot be read as a message or a button")
	return nil
}

// addressed is a command for one bot of a group, as Telegram completes it: /stop@NAME.
var addressed = lazyregexp.New(`^/[A-Za-z0-9_]{1,32}@([A-Za-z0-9_]{5,32})(?:\s|$)`)

// isForOtherBot reports whether a message is a command for another bot of its group. If the
// server does not say which name this bot has, all commands are for this bot.
func (t *Telegram) isForOtherBot(ctx context.Context, text string) (bool, error) {
	match := addressed.FindStringSubmatch(text)
	if match == nil {
		return false, nil
	}
	if t.name == "" {
		var raw json.RawMessage
		err := t.request(ctx, "getMe", object{}, &raw)
		if _, refused := consume.Rejected(err); err != nil && !refused {
			return false, fmt.Errorf("find out whether a command is for this bot: %w", err)
		}
		var me telegramUser
		if json.Unmarshal(raw, &me) == nil {
			t.name = me.Username
		}
	}
	return t.name != "" && !strings.EqualFold(match[1], t.name), nil
}

// allowedChat returns the chat of a message in the form of the settings: its id, or
// @NAME.
func (t *Telegram) allowedChat(m *telegramMessage) (chat string, ok bool) {
	chat = strconv.FormatInt(m.Chat.ID, 10)
	if name := "@" + m.Chat.Username; !t.allow.mayReceive(chat) && t.allow.mayReceive(name) {
		return name, true
	}
	return chat, t.allow.mayReceive(chat)
}

// incoming returns what the inbox gets. Its texts are empty if there is nothing to answer.
func (m *telegramMessage) incoming(chat string) Incoming {
	in := Incoming{ID: strconv.FormatInt(m.ID, 10), ChatID: chat, Text: strings.TrimSpace(m.Text + m.Caption)}
	var about []string
	if m.ReplyTo != nil {
		if quote := quoted(m.ReplyTo.Text + m.ReplyTo.Caption); quote != "" {
			about = append(about, quote)
		}
	}
	if kind := m.kind(); kind != "" {
		about = append(about, "(The user sent "+kind+", which you cannot see.)")
	} else if in.Text == "" && m.Photo == nil && m.Document == nil && m.Voice == nil {
		return in
	}
	if m.Chat.Type != "private" && m.Chat.Type != "" {
		in.From = m.From.FirstName
	}
	in.Context = strings.Join(about, "\n\n")
	return in
}

// kind names content that the agent does not get.
func (m *telegramMessage) kind() string {
	for _, kind := range []struct {
		data json.RawMessage
		name string
	}{
		{m.Audio, "an audio file"}, {m.Video, "a video"},
		{m.Sticker, "a sticker"}, {m.Location, "a location"}, {m.Contact, "a contact"},
	} {
		if kind.data != nil {
			return kind.name
		}
	}
	return ""
}

// decide passes the answer to an approval on, and tells the user what became of it.
func (t *Telegram) decide(ctx context.Context, u telegramUpdate, r *reception) error {
	callback := u.Callback
	answer, key, ok := strings.Cut(callback.Data, ":")
	if callback.Message == nil || !ok || answer != "yes" && answer != "no" {
		return nil
	}
	chat, allowed := t.allowedChat(callback.Message)
	if !allowed {
		r.ignore(chat, "button")
		return nil
	}
	by := "telegram:" + strconv.FormatInt(callback.From.ID, 10)
	text, err := r.Decide(ctx, Decision{Key: key, ChatID: chat, Approve: answer == "yes", By: by})
	if failure, final := errors.AsType[*tools.Error](err); final {
		text, err = failure.Message, nil
	}
	if err != nil {
		return err
	}
	// If one of these is lost, the answer is stored nevertheless.
	if err := t.request(ctx, "answerCallbackQuery", object{"callback_query_id": callback.ID, "text": tools.Excerpt(text, 180)}, nil); err != nil {
		r.log.Debug().Err(err).Msg("cannot confirm the answer")
	}
	edited := object{"chat_id": callback.Message.Chat.ID, "message_id": callback.Message.ID, "text": tools.Excerpt(callback.Message.Text, 3500) + "\n\n" + text}
	if err := t.request(ctx, "editMessageText", edited, nil); err != nil {
		r.log.Debug().Err(err).Msg("cannot remove the buttons")
	}
	return nil
}
