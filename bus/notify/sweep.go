package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

const (
	// sweepEvery is the interval of sweeps of the outbox.
	sweepEvery = 30 * time.Second
	// sweepAge is the age of the notifications that a sweep moves. It gives the
	// channel's own process time to start.
	sweepAge = 30 * time.Second
)

// sweep regularly moves the notifications that clients published for channels
// without a consumer to the default channel.
func (n *Notifier) sweep(ctx context.Context) error {
	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if moved, err := n.sweepOnce(ctx, time.Now().Add(-sweepAge)); err != nil && ctx.Err() == nil {
			n.log.Error().Err(err).Msg("cannot look for notifications of channels without a consumer")
		} else if moved > 0 {
			n.log.Warn().Int("count", moved).Str("to", n.cfg.Default).Msg("moved notifications of channels without a consumer")
		}
		timer.Reset(sweepEvery)
	}
}

// sweepOnce moves the notifications that are older than a time. After a crash
// between the copy and the removal, the next sweep repeats the copy with the same
// key.
func (n *Notifier) sweepOnce(ctx context.Context, before time.Time) (moved int, err error) {
	stream, err := n.bus.Stream(ctx, bus.Outbox)
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
		// An invalid token cannot have a consumer.
		if bus.CheckSubject(subject) == nil {
			if ok, err := n.isServed(ctx, tokens[1]); err != nil {
				return moved, err
			} else if ok {
				continue
			}
		}
		count, err := n.moveToDefault(ctx, stream, subject, tokens[1], before)
		moved += count
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

func (n *Notifier) moveToDefault(ctx context.Context, stream jetstream.Stream, subject, name string, before time.Time) (moved int, err error) {
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
		if err := n.put(ctx, n.forDefault(name, msg)); err != nil {
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

// forDefault returns the notification for the default channel.
func (n *Notifier) forDefault(name string, msg *jetstream.RawStreamMsg) channel.Notification {
	var moved channel.Notification
	if err := json.Unmarshal(msg.Data, &moved); err != nil || moved.Text == "" {
		moved = channel.Notification{Text: fmt.Sprintf("a notification of %d bytes that is not valid", len(msg.Data)), IsError: true}
	}
	moved.ID = fmt.Sprintf("stray-%d-%x", msg.Sequence, msg.Time.UnixNano())
	moved.Channel, moved.ChatID = n.cfg.Default, ""
	return moved.WithNote(n.noConsumer(name))
}
