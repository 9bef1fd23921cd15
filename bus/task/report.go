package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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

// storeReport stores the report of a stored result, if it has one: a copy that the notifier reads.
// publish stores a message unless its subject has one. A call may leave its queue only afterwards: if the process that stored the
// result dies before, the next worker of the call stores the report.
//
// A report is a copy of the result, so any other message in its place is removed: a client forged
// it, or it is of an earlier result of the call, which a retry removed or which has expired.
func storeReport(ctx context.Context, b *bus.Bus, k tools.CallKey, r StoredResult, publish func(context.Context, bus.Message) error) error {
	if !HasReport(r.ResultEvent) {
		return nil
	}
	m := bus.Message{Subject: b.Report(k.Session, k.ID), Body: r.Body, Header: nats.Header{}}
	tracing.Add(ctx, m.Header)
	for range maxReplaced {
		if err := publish(ctx, m); !errors.Is(err, bus.ErrSubjectExists) {
			return err
		}
		stored, err := b.Last(ctx, bus.Results, m.Subject)
		switch {
		case err == nil && stored.Sequence == 0: // it has just expired
		case err == nil && bytes.Equal(stored.Body, r.Body):
			return nil
		case err == nil:
			var result bus.Stored
			result, err = b.Last(ctx, bus.Results, b.Result(k.Session, k.ID))
			if err == nil && !bytes.Equal(result.Body, r.Body) {
				return nil // a retry has removed the result meanwhile, and the report is of the next one
			}
			if err == nil {
				err = Delete(ctx, b, stored.Sequence)
			}
		}
		if err != nil {
			return fmt.Errorf("replace the message %d on %q: %w", stored.Sequence, m.Subject, err)
		}
	}
	return fmt.Errorf("a client keeps publishing to %q", m.Subject)
}

// maxReplaced is how often storeReport removes another message in the place of a report.
const maxReplaced = 20
