package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// notifySubject returns the subject of a notification.
func (n *Notifier) notifySubject(sent channel.Notification) string {
	if sent.ChatID == "" {
		return n.bus.Notify(sent.Channel, "")
	}
	return n.bus.Notify(sent.Channel, tools.Token(sent.ChatID))
}

// moveToChat publishes a notification of bus.NotifyAny again, on the subject of its chat.
func (n *Notifier) moveToChat(ctx context.Context, sent channel.Notification, d *consume.Delivery) error {
	header := bus.KeptHeader(d.Header)
	m := bus.Message{Subject: n.notifySubject(sent), Body: d.Body, Header: header, Key: fmt.Sprintf("chat-%d-%d", d.Sequence, d.Published.UnixNano())}
	if err := n.bus.Republish(ctx, m, d.ID(), nil); !errors.Is(err, bus.ErrTooLarge) { // with the header of its id
		return err
	}
	_, err := n.bus.Publish(ctx, bus.Message{Subject: m.Subject, Body: m.Body, Header: header})
	return err
}

// checkChat sets the chat of a notification that only its subject names. Permissions apply to the
// subject, so the body may not name another chat.
func (n *Notifier) checkChat(sent *channel.Notification, subject string) error {
	if n.notifySubject(*sent) == subject {
		return nil
	}
	if token := subject[strings.LastIndexByte(subject, '.')+1:]; sent.ChatID == "" && tools.Token(token) == token {
		sent.ChatID = token
		return nil
	}
	return fmt.Errorf("the subject %q is not that of the chat %q", subject, tools.Excerpt(sent.ChatID, 80))
}
