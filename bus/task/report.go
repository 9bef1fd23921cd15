package task

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// HasReport reports whether the notifier needs a copy of a result, its report, because it may have
// a text for a user. The notifier reads all completions, so these have no report.
func HasReport(e tools.ResultEvent) bool {
	scheduled := e.Action == bus.Heartbeat || e.Action == bus.Cron
	return scheduled && e.IsError || e.ForUser != "" && !e.Silent && e.Action != tools.ActionAgent
}

// Report stores the report of a stored result, if it has one. publish stores a message unless its
// subject has one. A call may leave its queue only afterwards: if the process that stored the
// result dies before, the next worker of the call stores the report. The two tokens name the call.
func Report(ctx context.Context, b *bus.Bus, session, call string, event tools.ResultEvent, body []byte, publish func(context.Context, bus.Message) error) error {
	if !HasReport(event) {
		return nil
	}
	m := bus.Message{Subject: b.Report(session, call), Body: body, Header: nats.Header{}}
	tracing.Add(ctx, m.Header)
	err := publish(ctx, m)
	if errors.Is(err, bus.ErrSubjectExists) {
		return nil
	}
	return err
}
