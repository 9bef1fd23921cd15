package notify

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// onceHeader marks the notifications that this package put into the outbox:
// their ID is that of what they tell, so that a second one is a copy. It comes
// when an event is routed again after the stream forgot the key, which is 10
// minutes later, or after a restart of the server: what is delivered is off the
// stream, and its key with it. Clients may use an id twice and mean it.
const onceHeader = "Stevedore-Once"

// delivered reports whether the channel took the notification before. Only a
// process that dies between Send and setDelivered sends it again. Where nobody
// can say, it is sent: better twice than never.
func (n *Notifier) delivered(ctx context.Context, d *bus.Delivery, notification Notification) bool {
	if d.Header(onceHeader) == "" {
		return false
	}
	took, err := n.bus.Delivered(ctx, notification.Channel, tools.Token(notification.ID))
	if err != nil {
		n.log.Warn().Err(err).Str("channel", notification.Channel).Msg("this may be a copy; it is delivered all the same")
	}
	return took
}

// setDelivered remembers it for longer than a copy can come: it may be made as
// late as MaxAge, and wait for its channel as long as GiveUp.
func (n *Notifier) setDelivered(ctx context.Context, d *bus.Delivery, notification Notification) {
	if d.Header(onceHeader) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := n.bus.SetDelivered(ctx, notification.Channel, tools.Token(notification.ID), n.cfg.MaxAge+n.cfg.GiveUp+time.Hour); err != nil {
		n.log.Warn().Err(err).Str("channel", notification.Channel).Msg("a copy of this notification would be delivered as well")
	}
}
