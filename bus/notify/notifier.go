package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// Config configures a notifier. Channels is required; the rest has defaults.
type Config struct {
	// Channels that this process delivers to, by name; a name is a token. Other
	// processes may deliver to the same channels or to other ones.
	Channels map[string]channel.Channel
	// Default is the channel for notifications that have no other place: those of
	// schedules and completions that name no channel, and those for channels without a
	// consumer. Other results without a channel are for their caller; only a console
	// shows them too. Default "console".
	Default string
	// Facts has the last channel of each session. Nil means that none is known.
	Facts state.Store
	// Conversations, if not nil, gets completions and messages for the logs of agents.
	Conversations Conversations
	// OpenFile, if not nil, opens an artifact of a session or of its sub-agents. A *tools.Error
	// means that the session has no such artifact, or no longer.
	OpenFile func(ctx context.Context, session string, a channel.Artifact) (*channel.Document, error)
	// Grace is how long a running delivery may continue after a stop. Default 20 s.
	Grace time.Duration
	// Log receives events about notifications, without their text.
	Log zerolog.Logger
}

const (
	// maxAge is the age of a result after which it causes no notification, so that a notifier which was
	// down for long does not send old ones.
	maxAge = 24 * time.Hour
	// giveUp is the age after which a notification that fails again becomes a dead letter.
	giveUp = 24 * time.Hour
)

// Notifier routes results and completions into the outbox, and delivers the
// outbox of its channels. Any number of notifiers share the work.
type Notifier struct {
	bus *bus.Bus
	cfg Config
	log zerolog.Logger
}

// New returns a notifier. Run starts it.
func New(b *bus.Bus, cfg Config) (*Notifier, error) {
	cfg.Default = cmp.Or(cfg.Default, "console")
	for _, name := range append(sortedNames(cfg.Channels), cfg.Default) {
		if tools.Token(name) != name || name == tools.LastChannel {
			return nil, fmt.Errorf("channel %.80q: want a name of the form %s or h_, other than %q", name, tools.TokenForm, tools.LastChannel)
		}
	}
	return &Notifier{bus: b, cfg: cfg, log: cfg.Log}, nil
}

// Register creates the consumers of the channels, as Run does. Call it before a
// worker starts, so that the worker can record the channel of its first call.
func (n *Notifier) Register(ctx context.Context) error {
	for _, name := range sortedNames(n.cfg.Channels) {
		if _, err := n.bus.Consumer(ctx, n.bus.ChannelConsumer(name)); err != nil {
			return fmt.Errorf("register: %w", err)
		}
	}
	return nil
}

// Run routes and delivers until ctx is done, and returns when the last delivery
// is settled.
//
//	Run -+- results  --route--> outbox      completions and reports
//	     +- dead     --route--> outbox      ticks that became dead letters
//	     +- outbox   --deliver--> channel   one at a time, per chat
//	     +- outbox   --sweep--> default     channels without a consumer
func (n *Notifier) Run(ctx context.Context) error {
	if err := n.checkDefault(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for name, to := range n.cfg.Channels {
		if _, bridged := to.(*channel.Bridge); bridged {
			continue // another program delivers
		}
		group.Go(func() error { return n.consumeChannel(ctx, name, to) })
	}
	group.Go(func() error {
		return n.consume(ctx, n.bus.NotifierConsumer(), consume.Config{}, func(ctx context.Context, d *consume.Delivery) error {
			return n.route(tracing.From(ctx, d.Traceparent()), d)
		})
	})
	group.Go(func() error { return n.consume(ctx, n.bus.DeadConsumer(), consume.Config{}, n.routeDead) })
	group.Go(func() error { return n.sweep(ctx) })
	n.log.Info().Strs("channels", sortedNames(n.cfg.Channels)).Str("default", n.cfg.Default).Msg("notifier started")
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// checkDefault makes sure that every notification has a destination.
func (n *Notifier) checkDefault(ctx context.Context) error {
	ok, err := n.IsServed(ctx, n.cfg.Default)
	if err == nil && !ok {
		err = fmt.Errorf("default channel %q: it has no consumer in this or another process; add the channel or choose another default", n.cfg.Default)
	}
	return err
}

// IsServed reports whether a channel has a consumer, in this or another process.
func (n *Notifier) IsServed(ctx context.Context, name string) (bool, error) {
	if n.cfg.Channels[name] != nil {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, exists, err := n.bus.ConsumerInfo(ctx, n.bus.ChannelConsumer(name))
	return exists, err
}

// consume consumes. maxAge and giveUp limit the time; the number of attempts is not limited.
func (n *Notifier) consume(ctx context.Context, consumer bus.Consumer, cfg consume.Config, handle consume.Handler) error {
	cfg.MaxAttempts, cfg.Grace = math.MaxInt32, n.cfg.Grace
	return dead.Consume(ctx, n.bus, consumer, cfg, nil, handle)
}

// consumeChannel delivers the notifications of one channel until ctx is done.
func (n *Notifier) consumeChannel(ctx context.Context, name string, to channel.Channel) error {
	order, stop := newOrder(n.bus, name), ctx.Done()
	return n.consume(ctx, n.bus.ChannelConsumer(name), consume.Config{Slots: channel.Slots}, func(ctx context.Context, d *consume.Delivery) error {
		if bus.CheckSubject(d.Subject) != nil { // it would match other chats
			return consume.Reject(consume.CodeUndecodable, fmt.Errorf("subject %q", d.Subject))
		}
		turn, err := order.wait(ctx, stop, d.Subject, d.Sequence, d.Published)
		if turn == nil {
			return err
		}
		return turn.end(n.handle(ctx, to, name, d))
	})
}

// handle delivers the first notification of its subject.
func (n *Notifier) handle(ctx context.Context, to channel.Channel, name string, d *consume.Delivery) error {
	notification, err := decode(name, d.Body, d.ID(), d.Published)
	if err == nil && d.Subject == n.bus.NotifyAny(name) {
		if err := n.moveToChat(ctx, notification, d); !errors.Is(err, bus.ErrFull) {
			return err
		}
		return n.deliver(ctx, to, notification, d) // without its place among those of its chat, as a full outbox would stay full
	}
	if err == nil {
		err = n.checkChat(&notification, d.Subject)
	}
	if err != nil {
		return consume.Reject(consume.CodeUndecodable, err)
	}
	return n.deliver(ctx, to, notification, d)
}

// deliver sends one notification to its channel. Its error decides what happens
// next, as for a consume.Handler.
func (n *Notifier) deliver(ctx context.Context, to channel.Channel, notification channel.Notification, d *consume.Delivery) (verdict error) {
	name := notification.Channel
	if d.Header(bus.OnceHeader) != "" && n.wasDelivered(ctx, notification) {
		n.log.Debug().Str("channel", name).Str("notification", tools.Token(notification.ID)).Msg("dropped: the channel already accepted it")
		return nil
	}
	if d.Header(bus.AsideHeader) == "" {
		if err := n.addReceived(ctx, to, notification); err != nil {
			return err
		}
	}
	sending := beginDelivery(ctx, notification, d)
	message, err := n.withFile(sending.ctx, to, notification)
	if message.File != nil {
		defer message.File.Close()
	}
	if err == nil {
		err = n.closeDraft(sending.ctx, to, &message)
	}
	if err == nil {
		err = sending.send(to, message)
	}
	defer func() { sending.end(verdict) }()
	if err == nil {
		n.setDelivered(ctx, d, notification)
		n.log.Debug().Str("channel", name).Str("notification", tools.Token(notification.ID)).Int("attempt", d.Attempt).Msg("delivered")
		return nil
	}
	if pause, ok := consume.Postponed(err); ok {
		n.log.Warn().Str("channel", name).Str("chat", tools.Excerpt(notification.ChatID, 64)).Time("until",
			time.Now().Add(pause)).Msg("the receiver asked for a pause; all notifications for this chat wait")
	}
	if ctx.Err() == nil && time.Since(d.Published) > giveUp {
		return consume.Reject("undeliverable", fmt.Errorf("not delivered within %s: %w", giveUp, err))
	}
	return err
}

// decode reads a notification from the outbox and sets its defaults: the channel, an id and a time.
func decode(name string, body []byte, id string, at time.Time) (channel.Notification, error) {
	var n channel.Notification
	if !utf8.Valid(body) {
		return n, errors.New("decode notification: the body is not valid UTF-8")
	}
	if err := json.Unmarshal(body, &n); err != nil {
		return n, fmt.Errorf("decode notification: %w", err)
	}
	if strings.TrimSpace(n.Text) == "" {
		return n, errors.New("decode notification: it has no text")
	}
	n.Channel = name
	n.ID = cmp.Or(n.ID, id)
	n.Kind = cmp.Or(n.Kind, channel.KindMessage)
	if n.At.IsZero() {
		n.At = at.UTC()
	}
	return n, nil
}
