package task

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// HasReport reports whether the notifier may have a text for a user of a result. It reads all
// completions, so these need no report.
func HasReport(e tools.ResultEvent) bool {
	scheduled := e.Action == bus.Heartbeat || e.Action == bus.Cron
	return scheduled && e.IsError || e.ForUser != "" && !e.Silent && e.Action != tools.ActionAgent
}

// Report passes a stored result to the notifier if HasReport. publish stores a message unless its
// subject has one. A call may leave its queue only afterwards: if the process that stored the
// result dies before, the worker that gets the call next reports it. The two tokens name the call.
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
