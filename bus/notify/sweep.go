package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
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
	for tools.Sleep(ctx, sweepEvery) == nil {
		if moved, err := n.sweepOnce(ctx, time.Now().Add(-sweepAge)); err != nil && ctx.Err() == nil {
			n.log.Error().Err(err).Msg("cannot look for notifications of channels without a consumer")
		} else if moved > 0 {
			n.log.Warn().Int("count", moved).Str("to", n.cfg.Default).Msg("moved notifications of channels without a consumer")
		}
	}
	return nil
}

// sweepOnce moves the notifications that are older than a time. After a crash
// between the copy and the removal, the next sweep repeats the copy with the same
// key.
func (n *Notifier) sweepOnce(ctx context.Context, before time.Time) (moved int, err error) {
	stream, err := n.bus.UsedStream(ctx, bus.Outbox)
	if stream == nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return 0, err
	}
	served := map[string]bool{}
	for _, subject := range sortedNames(info.State.Subjects) {
		tokens := n.bus.Split(subject)
		if len(tokens) < 2 { // somebody gave the stream other subjects
			continue
		}
		name := tokens[1]
		// An invalid token cannot have a consumer.
		if _, known := served[name]; !known && bus.CheckSubject(n.bus.NotifyAny(name)) == nil {
			if served[name], err = n.IsServed(ctx, name); err != nil {
				return moved, err
			}
		}
		if served[name] || name == n.cfg.Default { // whose consumer somebody has removed
			continue
		}
		for m, err := range n.bus.Read(ctx, bus.Outbox, bus.Query{Subject: subject}) {
			if err == nil && m.At.After(before) {
				break
			}
			if err == nil {
				err = n.put(ctx, n.forDefault(name, m), m.Header.Get(bus.AsideHeader) != "")
			}
			if code, rejected := consume.Rejected(err); rejected {
				err = dead.GiveUp(ctx, n.bus, bus.Outbox, m, 0, code, err)
			} else if err == nil {
				err = n.bus.Delete(ctx, bus.Outbox, m.Sequence)
			}
			if err != nil {
				return moved, err
			}
			moved++
		}
	}
	return moved, nil
}

// forDefault returns the notification for the default channel.
func (n *Notifier) forDefault(name string, m bus.Stored) channel.Notification {
	var moved channel.Notification
	if err := json.Unmarshal(m.Body, &moved); err != nil || moved.Text == "" {
		moved = channel.Notification{Text: fmt.Sprintf("a notification of %d bytes that is not valid", len(m.Body)), IsError: true}
	}
	moved.ID = fmt.Sprintf("stray-%d-%x", m.Sequence, m.At.UnixNano())
	moved.Channel, moved.ChatID = n.cfg.Default, ""
	return moved.WithNote(n.noConsumer(name))
}
