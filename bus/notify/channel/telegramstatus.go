package channel

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/tools"
)

// ShowStatus implements StatusChannel.
func (t *Telegram) ShowStatus(ctx context.Context, chat, id, text string) (string, error) {
	params := object{"chat_id": chatID(chat), "text": tools.Excerpt(markup.Clean(text), 500), "disable_notification": true}
	if id != "" {
		params["message_id"] = json.Number(id)
		return id, t.request(ctx, "editMessageText", params, nil)
	}
	if text == "" {
		return "", t.request(ctx, "sendChatAction", object{"chat_id": chatID(chat), "action": "typing"}, nil)
	}
	var sent telegramMessage
	if err := t.request(ctx, "sendMessage", params, &sent); err != nil {
		return "", err
	}
	return strconv.FormatInt(sent.ID, 10), nil
}

// RemoveStatus implements StatusChannel.
func (t *Telegram) RemoveStatus(ctx context.Context, chat, id string) error {
	err := t.request(ctx, "deleteMessage", object{"chat_id": chatID(chat), "message_id": json.Number(id)}, nil)
	if _, refused := bus.Rejected(err); refused {
		return nil // the user has deleted it, or it is too old
	}
	return err
}
