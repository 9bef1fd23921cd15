package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// routeDead puts a notification about a dead tick for the owner of its schedule into the
// outbox. A call that became a dead letter has a result; a tick has none. routeDead never
// rejects a dead letter: that would create another one, without end.
func (n *Notifier) routeDead(ctx context.Context, d *consume.Delivery) error {
	if time.Since(d.Published) > maxAge {
		return nil
	}
	var letter dead.Letter
	if json.Unmarshal(d.Body, &letter) != nil || letter.Kind != bus.DeadTick {
		return nil
	}
	body, err := letter.Message(ctx, n.bus)
	if err != nil && letter.BodySequence != 0 && !errors.Is(err, dead.ErrNoBody) {
		return err // it cannot be read now
	}
	if err != nil {
		n.log.Warn().Err(err).Uint64("number", d.Sequence).Msg("the message of a dead letter is missing; no notification is sent")
		return nil
	}
	tokens := n.bus.Split(letter.Subject)
	tick, err := tools.DecodeTick(body)
	call := tick.Call
	if err != nil || len(tokens) != 3 || tokens[0] != "tick" {
		return nil
	}
	kind, name := tokens[1], tokens[2]
	call.Session = cmp.Or(call.Session, kind+"-"+name)
	notification := channel.Notification{
		ID:   fmt.Sprintf("dead-%d-%x", d.Sequence, d.Published.UnixNano()),
		Kind: channel.KindDead, Session: call.Session, Call: call.ID, Tool: call.Tool,
		Text: fmt.Sprintf("The %s did not run: %s; see dead letter %d", scheduleName(kind, cmp.Or(tick.Name, name)),
			tools.Excerpt(letter.Reason, 2000), d.Sequence),
		IsError: true, At: d.Published.UTC(), Channel: call.Channel, ChatID: call.ChatID,
	}
	if _, err := n.setChannel(ctx, call.SessionToken(), &notification); err != nil {
		return err
	}
	return n.put(ctx, notification, false)
}
