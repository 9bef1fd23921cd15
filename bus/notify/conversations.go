package notify

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// Conversations adds to the logs of agents' conversations what happened outside of them, so
// that a user can ask about it. The notifier calls its methods again if they fail or if it
// dies; they must add each event once.
type Conversations interface {
	// Completed adds the completion of an async call that a conversation made.
	Completed(ctx context.Context, session, call string, event tools.ResultEvent) error
	// Received adds a text that the user of a chat is about to get to the conversation of the
	// chat, unless a run of that conversation has it. chat is that of the notification, or the
	// default of its channel.
	Received(ctx context.Context, n channel.Notification, chat string) error
}

// addCompletion adds a completion to the conversation that made the call.
func (n *Notifier) addCompletion(ctx context.Context, kind, session, call string, event tools.ResultEvent) error {
	if n.cfg.Conversations == nil || kind != channel.KindCompletion || event.Action != tools.ActionAgent || event.Delivery == tools.DeliverUser {
		return nil
	}
	return n.cfg.Conversations.Completed(ctx, session, call, event)
}

// receivedTimeout is the age below which a notification waits for its conversation: whoever
// answers it finds it there. An older one is sent anyway.
const receivedTimeout = time.Minute

// addReceived adds a notification to the conversation of its chat. It is called before each
// attempt to send it.
func (n *Notifier) addReceived(ctx context.Context, to channel.Channel, notification channel.Notification) error {
	if n.cfg.Conversations == nil {
		return nil
	}
	err := n.cfg.Conversations.Received(ctx, notification, chatOf(to, notification.ChatID))
	age := time.Since(notification.At)
	if err == nil || age >= 0 && age < receivedTimeout { // a client may have set a time in the future
		return err
	}
	n.log.Error().Err(err).Str("channel", notification.Channel).Str("notification", tools.Token(notification.ID)).
		Msg("a message is not in the conversation of its chat")
	return nil
}

// conversationTimeout is how long an event is retried that cannot be added to a
// conversation. The user is notified in any case.
const conversationTimeout = time.Hour

// retryConversation returns the verdict for an event that could not be added to a
// conversation.
func (n *Notifier) retryConversation(d *consume.Delivery, err error) error {
	if err == nil || time.Since(d.Published) < conversationTimeout {
		return err
	}
	n.log.Error().Err(err).Str("subject", d.Subject).Msg("an event is not in the conversation that it belongs to")
	return nil
}
