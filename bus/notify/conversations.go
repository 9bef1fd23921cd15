package notify

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// Conversations adds to the logs of agents' conversations what happened outside of them, so
// that a user can ask about it. The notifier calls its methods again if they fail or if it
// dies; they must add each event once.
type Conversations interface {
	// Completed adds the completion of an async call that a conversation made.
	Completed(ctx context.Context, session, call string, event tools.ResultEvent) error
	// Received adds a message that a user received, for example from a heartbeat, to the
	// conversation of the user's chat.
	Received(ctx context.Context, n channel.Notification) error
}

// addCompletion adds a completion to the conversation that made the call.
func (n *Notifier) addCompletion(ctx context.Context, kind, session, call string, event tools.ResultEvent) error {
	if n.cfg.Conversations == nil || kind != channel.KindCompletion || event.Action != tools.ActionAgent || event.Delivery == tools.DeliverUser {
		return nil
	}
	return n.cfg.Conversations.Completed(ctx, session, call, event)
}

// addReceived adds a notification to the conversation of its chat.
func (n *Notifier) addReceived(ctx context.Context, notification channel.Notification) error {
	if n.cfg.Conversations == nil {
		return nil
	}
	return n.cfg.Conversations.Received(ctx, notification)
}

// conversationTimeout is how long an event is retried that cannot be added to a
// conversation. The user is notified in any case.
const conversationTimeout = time.Hour

// retryConversation returns the verdict for an event that could not be added to a
// conversation.
func (n *Notifier) retryConversation(d *bus.Delivery, err error) error {
	if err == nil || time.Since(d.Published) < conversationTimeout {
		return err
	}
	n.log.Error().Err(err).Str("subject", d.Subject).Msg("an event is not in the conversation that it belongs to")
	return nil
}
