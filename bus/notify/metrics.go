package notify

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools/metrics"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

var (
	notificationsTotal = metrics.NewCounter("stevedore_notifications_total",
		"Attempts of this process to deliver a notification: delivered, failed (it is repeated), postponed (the receiver asked for a "+
			"pause) or rejected (it becomes a dead letter).", "channel", "outcome")
	reportsDropped = metrics.NewCounter("stevedore_reports_dropped_total",
		"Messages in the place of the report of a result that are none. No worker writes them: look for a client that does.")
	notificationDuration = metrics.NewHistogram("stevedore_notification_duration_seconds",
		"Time that the receiver of a channel took to answer.", metrics.Seconds, "channel")
)

// sending counts and traces an attempt to deliver a notification.
type sending struct {
	ctx     context.Context
	span    trace.Span
	channel string
	began   time.Time
	took    time.Duration
}

func beginDelivery(ctx context.Context, n channel.Notification, d *consume.Delivery) *sending {
	s := &sending{channel: n.Channel, began: time.Now()}
	s.ctx, s.span = tracing.Start(tracing.From(ctx, d.Traceparent()), "notify "+n.Channel, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		tracing.Channel.String(n.Channel), tracing.Attempt.Int(d.Attempt), tracing.ToolCall.String(n.Call), tracing.Conversation.String(n.Session)))
	return s
}

// sent is called when the receiver has answered.
func (s *sending) sent() { s.took = time.Since(s.began) }

// end is called with the verdict.
func (s *sending) end(verdict error) {
	outcome, code := outcomeOf(verdict), ""
	if verdict != nil {
		code = outcome
	}
	notificationsTotal.Add(1, s.channel, outcome)
	notificationDuration.Observe(s.took.Seconds(), s.channel)
	s.span.SetAttributes(tracing.Outcome.String(outcome))
	tracing.End(s.span, code)
}

func outcomeOf(verdict error) string {
	_, postponed := consume.Postponed(verdict)
	_, rejected := consume.Rejected(verdict)
	switch {
	case verdict == nil:
		return "delivered"
	case rejected:
		return "rejected"
	case postponed:
		return "postponed"
	}
	return "failed"
}
