package notify

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools/metrics"
	"github.com/stevedore-bus/stevedore/tools/tracing"
	"github.com/stevedore-bus/stevedore/tools/trouble"
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
}

func beginDelivery(ctx context.Context, n channel.Notification, d *consume.Delivery) *sending {
	s := &sending{channel: n.Channel}
	s.ctx, s.span = tracing.Start(tracing.From(ctx, d.Traceparent()), "notify "+n.Channel, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		tracing.Channel.String(n.Channel), tracing.Attempt.Int(d.Attempt), tracing.ToolCall.String(n.Call), tracing.Conversation.String(n.Session)))
	return s
}

// answerWithin is how long an attempt without a file may take before its channel counts as failing. Operators
// see a receiver that hangs within 5 s, and not only when the attempt is given up.
const answerWithin = 4 * time.Second

// send calls the receiver.
func (s *sending) send(to channel.Channel, n channel.Notification) error {
	began, reported := time.Now(), make(chan struct{})
	late := time.AfterFunc(answerWithin, func() {
		defer close(reported)
		if n.File == nil {
			trouble.Report(s.ctx, trouble.Channel, s.channel, fmt.Errorf("the receiver has not answered for %s", answerWithin))
		}
	})
	err := to.Send(s.ctx, n)
	if !late.Stop() {
		<-reported // otherwise it could follow that of the verdict
	}
	notificationDuration.Observe(time.Since(began).Seconds(), s.channel)
	return err
}

// end is called with the verdict.
func (s *sending) end(verdict error) {
	outcome, code, failure := outcomeOf(verdict), "", error(nil)
	if verdict != nil {
		code = outcome
	}
	if outcome == "failed" {
		failure = verdict
	}
	trouble.Report(s.ctx, trouble.Channel, s.channel, failure)
	notificationsTotal.Add(1, s.channel, outcome)
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
