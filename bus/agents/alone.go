package agents

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

const (
	// aloneInterval is the time between two looks at which process receives.
	aloneInterval = 5 * time.Second
	// aloneTimeout is how long the process that receives may take to answer that it lives.
	aloneTimeout = 2 * time.Second
)

// Alone calls receive while no other process of the installation receives the messages of the channel, until ctx ends:
// Telegram ends the request of one process when another one asks. The key of the channel has the id of the process that
// receives, and that process answers requests for its id as long as it lives.
func (in *Inbox) Alone(ctx context.Context, receive func(context.Context) error) error {
	id := nuid.Next()
	alive, err := in.bus.Conn().Subscribe(in.bus.RPC("receiving", id), func(m *nats.Msg) { _ = m.Respond(nil) })
	if err != nil {
		return err
	}
	defer func() { _ = alive.Unsubscribe() }() // the connection may be gone
	var ended chan error                       // of receive, if it runs
	stop := func() {}
	defer func() { stop() }()
	for waits := false; ctx.Err() == nil; {
		mine, err := in.claim(ctx, id)
		switch {
		case err != nil: // whoever receives goes on
			if ended == nil {
				trouble.Report(ctx, trouble.Receiver, in.channel, err)
			}
		case mine && ended == nil:
			work, cancel := context.WithCancel(ctx)
			stop, ended, waits = cancel, make(chan error, 1), false
			go func() { ended <- receive(work) }()
		case !mine && !waits:
			if stop(); ended != nil {
				<-ended
			}
			ended, waits = nil, true
			trouble.Report(ctx, trouble.Receiver, in.channel, nil)
			in.log.Info().Str("channel", in.channel).Msg("another process receives the messages of this channel; this one waits until it ends")
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(aloneInterval):
		case <-ctx.Done():
		}
	}
	stop()
	if ended == nil {
		return nil
	}
	return <-ended
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
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if _, err = in.bus.PutEntry(ctx, key, []byte(id), m.Sequence, 0); errors.Is(err, bus.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}
