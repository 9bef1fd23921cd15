package console

import (
	"context"
	"net/http"
	"time"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// testTimeout is the time that a channel gets to accept a test notification.
	testTimeout = 8 * time.Second
	testPoll    = 100 * time.Millisecond
)

// testChannel sends a notification through the outbox, as every notification goes, and
// waits until the channel has accepted it.
func (c *Console) testChannel(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if !tools.IsToken(name) {
		return nil, badArgument("the channel %q is not of the form %s", tools.Excerpt(name, 80), tools.TokenForm)
	}
	if _, known, err := c.bus.ConsumerInfo(r.Context(), c.bus.ChannelConsumer(name)); err != nil {
		return nil, err
	} else if !known {
		return nil, tools.Errorf(tools.CodeNotFound, "there is no channel %q; a worker that has it creates it", name)
	}
	n := channel.Notification{
		ID: "test-" + nuid.Next(), Kind: channel.KindMessage, Channel: name,
		Text: "This is a test. Notifications of Stevedore arrive here.", At: time.Now().UTC(),
	}
	body, err := bus.Encode(n)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	ack, err := c.bus.Publish(r.Context(), bus.Message{Subject: c.bus.Notify(name, ""), Body: body, Key: n.ID})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), testTimeout)
	defer cancel()
	for {
		stored, err := bus.IsStored(ctx, c.bus, bus.Outbox, ack.Sequence)
		switch {
		case err != nil && r.Context().Err() == nil && ctx.Err() != nil:
			stored = true // the last poll was cut off
		case err != nil:
			return nil, err
		}
		if !stored {
			return c.testOutcome(r.Context(), ack.Sequence, time.Since(started))
		}
		if tools.Sleep(ctx, testPoll) != nil {
			return map[string]any{"state": "waiting", "message": "The channel has not accepted the notification yet. It stays in the outbox " +
				"and is retried; the log of the notifier has the reason."}, nil
		}
	}
}

// testOutcome reports whether a notification that left the outbox was accepted, or
// became a dead letter.
func (c *Console) testOutcome(ctx context.Context, sequence uint64, took time.Duration) (any, error) {
	page, err := dead.ListPage(ctx, c.bus, dead.Query{Kind: bus.DeadNotification, Back: true, Limit: 50})
	if err != nil {
		return nil, err
	}
	for _, letter := range page.Letters {
		if letter.Sequence == sequence {
			return map[string]any{"state": "failed", "message": letter.Reason, "dead_letter": letter.Number}, nil
		}
	}
	return map[string]any{"state": "accepted", "ms": took.Milliseconds()}, nil
}
