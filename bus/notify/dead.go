package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// tellDead tells the owners of schedules which ticks were given up on: they have
// no result that would tell them, as calls that are given up on have.
func (n *Notifier) tellDead(ctx context.Context) error {
	cfg := bus.ConsumeConfig{MaxAttempts: math.MaxInt32, Grace: n.cfg.Grace}
	return n.bus.Consume(ctx, n.bus.DeadConsumer(), cfg, n.routeDead)
}

// routeDead puts what a dead letter tells the user into the outbox. It never
// rejects a letter: that would make another one, and so on for ever.
func (n *Notifier) routeDead(ctx context.Context, d *bus.Delivery) error {
	if time.Since(d.Published) > n.cfg.MaxAge {
		return nil
	}
	var letter bus.DeadLetter
	if json.Unmarshal(d.Body, &letter) != nil {
		return nil // somebody else's
	}
	if letter.Kind != bus.DeadTick {
		return nil // a call's result tells of it
	}
	body, err := n.bus.DeadMessage(ctx, letter)
	if err != nil {
		n.log.Warn().Err(err).Uint64("number", d.Sequence).Msg("dead letter without its message; nobody is told")
		return nil
	}
	tokens := n.bus.Split(letter.Subject)
	call, err := tools.DecodeCall(body) // of a tick as well: it is a call and more
	if err != nil || len(tokens) != 3 || tokens[0] != "tick" {
		return nil // nobody knows whose it is
	}
	kind, name := tokens[1], tokens[2]
	call.Session = cmp.Or(call.Session, kind+"-"+name)
	notification := Notification{
		ID:   fmt.Sprintf("dead-%d-%x", d.Sequence, d.Published.UnixNano()),
		Kind: KindDead, Session: call.Session, Call: call.ID, Tool: call.Tool,
		Text:    fmt.Sprintf("The %s job %s did not run: %s; see worker dead show %d", kind, name, tools.Excerpt(letter.Reason, 2000), d.Sequence),
		IsError: true, At: d.Published.UTC(),
	}
	if err := n.address(ctx, call.SessionToken(), tools.ResultEvent{Channel: call.Channel, ChatID: call.ChatID}, &notification); err != nil {
		return err
	}
	return n.put(ctx, notification)
}

// isScheduled reports whether a call is a schedule's, so that nobody waits for
// it.
func isScheduled(action string) bool { return action == bus.Heartbeat || action == bus.Cron }
