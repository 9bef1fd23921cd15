package notify

import (
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools/metrics"
)

var (
	notificationsTotal = metrics.NewCounter("stevedore_notifications_total",
		"Attempts of this process to deliver a notification: delivered, failed (it is repeated), postponed (the receiver asked for a pause) or rejected (it becomes a dead letter).", "channel", "outcome")
	notificationDuration = metrics.NewHistogram("stevedore_notification_duration_seconds",
		"Time that the receiver of a channel took to answer.", metrics.Seconds, "channel")
)

// countDelivery counts an attempt to deliver with its verdict.
func countDelivery(channel string, took time.Duration, verdict error) {
	outcome := "delivered"
	_, postponed := bus.Postponed(verdict)
	_, rejected := bus.Rejected(verdict)
	switch {
	case rejected:
		outcome = "rejected"
	case postponed:
		outcome = "postponed"
	case verdict != nil:
		outcome = "failed"
	}
	notificationsTotal.Add(1, channel, outcome)
	notificationDuration.Observe(took.Seconds(), channel)
}
