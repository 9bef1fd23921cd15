package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// deliveredKey is the key of the record that a channel accepted a notification.
func deliveredKey(n channel.Notification) string {
	return fmt.Sprintf("delivered.%s.%x", n.Channel, n.Digest())
}

// isStored returns a function that reports whether a stored body is n. Its note and its
// channel may differ if it is routed again.
func isStored(n channel.Notification) func(body []byte) bool {
	return func(body []byte) bool {
		var stored channel.Notification
		return json.Unmarshal(body, &stored) == nil && stored.Digest() == n.Digest()
	}
}

// wasDelivered reports whether the channel already accepted the notification. If
// the lookup fails, it returns false: a copy is better than a loss. A process
// that ends between Send and setDelivered also causes a copy.
func (n *Notifier) wasDelivered(ctx context.Context, notification channel.Notification) bool {
	m, err := n.bus.Entry(ctx, deliveredKey(notification))
	if err != nil {
		n.log.Warn().Err(err).Str("channel", notification.Channel).Msg("cannot look up whether this notification was delivered; delivering it")
	}
	return len(m.Data) > 0
}

// setDelivered records the delivery for as long as a copy can appear: the event
// may be routed until maxAge, and the copy may wait for its channel until giveUp.
func (n *Notifier) setDelivered(ctx context.Context, d *consume.Delivery, notification channel.Notification) {
	if d.Header(bus.OnceHeader) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	key, at := deliveredKey(notification), time.Now().UTC().Format(time.RFC3339)
	m, err := n.bus.Entry(ctx, key)
	if err == nil && len(m.Data) == 0 {
		_, err = n.bus.PutEntry(ctx, key, []byte(at), m.Sequence, maxAge+giveUp+time.Hour)
	}
	if err != nil && !errors.Is(err, bus.ErrConflict) {
		n.log.Warn().Err(err).Str("channel", notification.Channel).Msg("cannot record the delivery; a copy would be delivered too")
	}
}
