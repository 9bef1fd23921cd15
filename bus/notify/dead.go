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

// tellDead tells the owners of scheduled work what was given up on: it has no
// result that would tell them, and nobody waits for it.
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
	body, err := n.bus.DeadMessage(ctx, letter)
	if err != nil {
		n.log.Warn().Err(err).Uint64("number", d.Sequence).Msg("dead letter without its message; nobody is told")
		return nil
	}
	call, err := tools.DecodeCall(body) // of a tick as well: it is a call and more
	if err != nil {
		return nil // nobody knows whose it is
	}
	var what string
	tokens := n.bus.Split(letter.Subject)
	switch {
	case len(tokens) == 3 && tokens[0] == "tick":
		call.Session = cmp.Or(call.Session, tokens[1]+"-"+tokens[2])
		what = fmt.Sprintf("The %s job %s did not run", tokens[1], tokens[2])
	case isScheduled(call.Action):
		what = letter.Name + " did not succeed (given up)"
	default:
		return nil // its client waits for it
	}
	notification := Notification{
		ID:   fmt.Sprintf("dead-%d-%x", d.Sequence, d.Published.UnixNano()),
		Kind: KindDead, Session: call.Session, Call: call.ID, Tool: call.Tool,
		Text:    fmt.Sprintf("%s: %s; see worker dead show %d", what, tools.Excerpt(letter.Reason, 2000), d.Sequence),
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
