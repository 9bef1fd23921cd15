package notify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// LastChannels knows where the user of a session was last heard. An empty
// session means all sessions; an empty channel that nobody knows.
type LastChannels interface {
	LastChannel(ctx context.Context, session string) (channel, chat string, err error)
}

// Config says how a notifier works. Channels is needed, the rest has defaults.
type Config struct {
	// Channels that this process delivers to, by name; a name is a token. Other
	// processes may deliver to others, or share these.
	Channels map[string]Channel
	// Default is the channel for what has none, or has one that nobody serves.
	// Default "console".
	Default string
	// LastChannels finds the channel of a session. Nil means that none is known.
	LastChannels LastChannels
	// MaxAge is how old a result may be to be told: a notifier that starts
	// after a long time does not repeat the past. Default 24 h.
	MaxAge time.Duration
	// GiveUp is how long a notification is tried before it is a dead letter.
	// Default 24 h.
	GiveUp time.Duration
	// Grace is how long a delivery may go on after a stop. Default 20 s.
	Grace time.Duration
	// Log takes what happens to notifications; their text stays out.
	Log zerolog.Logger
}

// Notifier routes results and completions into the outbox, and delivers what is
// in the outbox for its channels. Any number of them share the work.
type Notifier struct {
	bus    *bus.Bus
	cfg    Config
	log    zerolog.Logger
	served served
}

// New returns a notifier that is not running yet.
func New(b *bus.Bus, cfg Config) (*Notifier, error) {
	if cfg.Default == "" {
		cfg.Default = "console"
	}
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = 24 * time.Hour
	}
	if cfg.GiveUp <= 0 {
		cfg.GiveUp = 24 * time.Hour
	}
	for _, name := range append(sortedNames(cfg.Channels), cfg.Default) {
		if tools.Token(name) != name || name == tools.LastChannel {
			return nil, fmt.Errorf("channel %.80q: want a name of the form %s or h_, other than %q", name, tools.TokenForm, tools.LastChannel)
		}
	}
	return &Notifier{bus: b, cfg: cfg, log: cfg.Log, served: served{bus: b, known: map[string]answer{}}}, nil
}

// Register makes the channels known as served, as Run does. A worker that starts
// after it remembers where the first user was heard.
func (n *Notifier) Register(ctx context.Context) error {
	for _, name := range sortedNames(n.cfg.Channels) {
		if err := n.bus.ServeChannel(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Run routes and delivers until ctx ends, and returns when the last delivery is
// settled.
//
//	Run -+- results  --route--> outbox
//	     +- dead     --route--> outbox      scheduled work that was given up on
//	     +- outbox   --deliver--> channel   one after the other, per channel
//	     +- outbox   --sweep--> default     what nobody serves
func (n *Notifier) Run(ctx context.Context) error {
	if err := n.checkDefault(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		errs  error
	)
	run := func(f func() error) {
		group.Go(func() {
			if err := f(); err != nil && !errors.Is(err, context.Canceled) {
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
				cancel(err)
			}
		})
	}
	for name, channel := range n.cfg.Channels {
		run(func() error {
			// A notification is tried for as long as GiveUp says, so that
			// attempts are not what ends it.
			cfg := bus.ConsumeConfig{Slots: 1, MaxAttempts: math.MaxInt32, Grace: n.cfg.Grace}
			return n.bus.Consume(ctx, n.bus.ChannelConsumer(name), cfg, func(ctx context.Context, d *bus.Delivery) error {
				return n.deliver(ctx, name, channel, d)
			})
		})
	}
	run(func() error {
		cfg := bus.ConsumeConfig{MaxAttempts: math.MaxInt32, Grace: n.cfg.Grace}
		return n.bus.Consume(ctx, n.bus.NotifierConsumer(), cfg, n.route)
	})
	run(func() error { return n.tellDead(ctx) })
	run(func() error { return n.sweep(ctx) })
	n.log.Info().Strs("channels", sortedNames(n.cfg.Channels)).Str("default", n.cfg.Default).Msg("notifier serves")
	group.Wait()
	return errs
}

// checkDefault makes sure that there is an end to every way.
func (n *Notifier) checkDefault(ctx context.Context) error {
	if n.cfg.Channels[n.cfg.Default] != nil {
		return nil
	}
	ok, err := n.served.by(ctx, n.cfg.Default)
	if err == nil && !ok {
		err = fmt.Errorf("default channel %q: it is not served, here or elsewhere; serve it or choose another default", n.cfg.Default)
	}
	return err
}

// deliver takes one notification to its channel; what it returns is the verdict.
func (n *Notifier) deliver(ctx context.Context, name string, channel Channel, d *bus.Delivery) error {
	notification, err := decode(name, d)
	if err != nil {
		return bus.Reject(bus.CodeUndecodable, err)
	}
	if n.delivered(ctx, d, notification) {
		n.log.Debug().Str("channel", name).Str("notification", tools.Token(notification.ID)).Msg("dropped; the channel took it before")
		return nil
	}
	err = channel.Send(ctx, notification)
	if err == nil {
		n.setDelivered(ctx, d, notification)
		n.log.Debug().Str("channel", name).Str("notification", tools.Token(notification.ID)).Int("attempt", d.Attempt).Msg("delivered")
		return nil
	}
	if pause, ok := bus.Postponed(err); ok {
		n.log.Warn().Str("channel", name).Time("until", time.Now().Add(pause)).Msg("the other side asks for a pause; all that is for this channel waits")
	}
	if ctx.Err() == nil && time.Since(d.Published) > n.cfg.GiveUp {
		return bus.Reject("undeliverable", fmt.Errorf("not delivered within %s: %w", n.cfg.GiveUp, err))
	}
	return err
}
