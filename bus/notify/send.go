package notify

import (
	"context"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Send puts a message to a user into the outbox and returns it as it stands
// there: Channel and ChatID say where it goes. If it names no channel, it goes
// where a result of its session would. It is durable when Send returns; a second
// one with the same ID is dropped.
func (n *Notifier) Send(ctx context.Context, message Notification) (Notification, error) {
	if message.ID == "" || strings.TrimSpace(message.Text) == "" {
		return Notification{}, fmt.Errorf("send message: it has no id or no text")
	}
	to := tools.ResultEvent{Channel: message.Channel, ChatID: message.ChatID}
	message.Kind, message.Channel, message.ChatID = KindMessage, "", ""
	err := n.address(ctx, tools.Call{Session: message.Session}.SessionToken(), to, &message)
	if err == nil {
		err = n.put(ctx, message)
	}
	if err != nil {
		return Notification{}, fmt.Errorf("send message: %w", err)
	}
	return message, nil
}
