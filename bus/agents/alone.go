package agents

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

const (
	// aloneInterval is the time between two looks at which process receives.
	aloneInterval = 5 * time.Second
	// aloneTimeout is how long the process that receives may take to answer that it lives.
	aloneTimeout = 2 * time.Second
)

// Alone calls receive while the bus answers and no other process of the installation receives the messages of the channel,
// until ctx ends: Telegram ends the request of one process when another one asks. The key of the channel has the id of the
// process that receives, and that process answers requests for its id as long as it lives.
func (in *Inbox) Alone(ctx context.Context, receive func(context.Context) error) error {
	id := nuid.Next()
	alive, err := in.bus.Conn().Subscribe(in.bus.RPC("receiving", id), func(m *nats.Msg) { _ = m.Respond(nil) })
	if err != nil {
		return err
	}
	defer func() { _ = alive.Unsubscribe() }() // the connection may be gone
	for waits := false; ctx.Err() == nil; {
		mine, err := in.claim(ctx, id)
		if mine {
			work, stop := context.WithCancel(ctx)
			go func() {
				for tools.Sleep(work, aloneInterval) == nil {
					if mine, _ := in.claim(work, id); !mine { // also if that is unknown: without the bus, it can hand in nothing
						stop()
					}
				}
			}()
			err = receive(work)
			if stop(); err != nil {
				return err
			}
			waits = false
			continue
		}
		trouble.Report(ctx, trouble.Receiver, in.channel, err)
		if err == nil && !waits {
			waits = true
			in.log.Info().Str("channel", in.channel).Msg("another process receives the messages of this channel; this one waits until it ends")
		}
		_ = tools.Sleep(ctx, aloneInterval)
	}
	return nil
}

// claim reports whether the process with an id is the one that receives. It becomes that one if the last one does not answer.
func (in *Inbox) claim(ctx context.Context, id string) (bool, error) {
	key := "receiver." + in.channel
	m, err := in.bus.Entry(ctx, key)
	if err != nil || string(m.Data) == id {
		return err == nil, err
	}
	if len(m.Data) > 0 {
		ctx, cancel := context.WithTimeout(ctx, aloneTimeout)
		defer cancel()
		if _, err := in.bus.Conn().RequestWithContext(ctx, in.bus.RPC("receiving", string(m.Data)), nil); err == nil {
			return false, nil
		}
	}
	if _, err = in.bus.PutEntry(ctx, key, []byte(id), m.Sequence, 0); errors.Is(err, bus.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}
