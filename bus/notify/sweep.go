package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

const (
	// sweepEvery is how often the outbox is searched for what nobody serves.
	sweepEvery = 30 * time.Second
	// strayAge gives the channel's own process time to start.
	strayAge = 30 * time.Second
)

// sweep moves what clients published for channels that nobody serves to the
// default channel, again and again.
func (n *Notifier) sweep(ctx context.Context) error {
	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if moved, err := n.sweepOnce(ctx, time.Now().Add(-strayAge)); err != nil && ctx.Err() == nil {
			n.log.Error().Err(err).Msg("cannot look for notifications that nobody serves")
		} else if moved > 0 {
			n.log.Warn().Int("count", moved).Str("to", n.cfg.Default).Msg("moved notifications for channels that nobody serves")
		}
		timer.Reset(sweepEvery)
	}
}

// sweepOnce moves the strays that are older than a time. A crash between the
// copy and the removal repeats the copy, under the same key.
func (n *Notifier) sweepOnce(ctx context.Context, before time.Time) (moved int, err error) {
	stream, err := n.bus.JetStream().Stream(ctx, n.bus.StreamName(bus.Outbox))
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(n.bus.Notify("*")))
	if err != nil {
		return 0, err
	}
	for _, subject := range sortedNames(info.State.Subjects) {
		tokens := n.bus.Split(subject)
		if len(tokens) != 2 || n.cfg.Channels[tokens[1]] != nil {
			continue
		}
		// A token that is none cannot have a consumer.
		if bus.CheckSubject(subject) == nil {
			if ok, err := n.served.by(ctx, tokens[1]); err != nil {
				return moved, err
			} else if ok {
				continue
			}
		}
		count, err := n.moveStrays(ctx, stream, subject, tokens[1], before)
		moved += count
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

func (n *Notifier) moveStrays(ctx context.Context, stream jetstream.Stream, subject, channel string, before time.Time) (moved int, err error) {
	for sequence := uint64(1); ctx.Err() == nil; sequence++ {
		msg, err := stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return moved, nil
		}
		if err != nil {
			return moved, err
		}
		sequence = msg.Sequence
		if msg.Time.After(before) {
			return moved, nil
		}
		if err := n.put(ctx, n.stray(channel, msg)); err != nil {
			return moved, err
		}
		err = stream.DeleteMsg(ctx, sequence)
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return moved, err
		}
		moved++
	}
	return moved, ctx.Err()
}

// stray is what the default channel gets of a notification for another one.
func (n *Notifier) stray(channel string, msg *jetstream.RawStreamMsg) Notification {
	var stray Notification
	if err := json.Unmarshal(msg.Data, &stray); err != nil || stray.Text == "" {
		stray = Notification{Text: fmt.Sprintf("a notification of %d bytes that cannot be read", len(msg.Data)), IsError: true}
	}
	stray.ID = fmt.Sprintf("stray-%d-%x", msg.Sequence, msg.Time.UnixNano())
	stray.Channel, stray.ChatID = n.cfg.Default, ""
	return stray.noted(n.unserved(channel))
}
