// Package consume takes the messages of a durable consumer with leases, and settles each one as
// its handler says.
//
//	consume    Run: pull (bus/internal/pull) and pass on
//	handle     run the handler and apply its verdict (verdict.go); package dead stores what is given up
//	delivery   a message with its lease, which lease.go extends
//	trim       remove settled messages from a stream that keeps them
//	turns      let sessions take turns if calls wait for long
package consume

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/internal/pull"
	"github.com/stevedore-bus/stevedore/tools/fair"
	"github.com/stevedore-bus/stevedore/tools/retry"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// Config limits what a consumer takes. The zero value works.
type Config struct {
	// Slots is how many messages are handled at once; the consumer pulls no more.
	// Handlers that called Delivery.Detach do not count. Default 64.
	Slots int
	// MaxAttempts is how often a message is delivered before it becomes a dead
	// letter. Default 5.
	MaxAttempts int
	// Grace is how long running handlers may continue after a stop before their
	// contexts end. Default 20 s.
	Grace time.Duration
	// ShouldRetry, if not nil, reports whether to keep retrying a message that was
	// delivered MaxAttempts times, because its handler makes progress. It may lower
	// d.Attempt: a delivery that no process began to handle is not an attempt.
	ShouldRetry func(ctx context.Context, d *Delivery) (bool, error)
	// TakeAhead, if not nil, lets the sessions of calls take turns if they wait for long. It
	// records that this process handles the message with a sequence before the consumer
	// delivers it, and reports false if it must not. The handler is responsible for a message
	// that was taken and is then delivered.
	TakeAhead func(ctx context.Context, subject string, sequence uint64) (bool, error)
	// Pool, if not nil, has slots that consumers share: a message needs one of them in addition.
	Pool *Pool
	// SessionSlots, if not 0, limits how many messages of a session are handled at once, of
	// those that TakeAhead is about. Handlers that called Delivery.Detach do not count.
	SessionSlots int
	// Spare makes a process get messages of a ranked consumer only while no other one asks for
	// them.
	Spare bool
	// AwaitUse makes the consumer wait until its stream was used, instead of creating the stream.
	AwaitUse bool
	// GiveUp stores a message elsewhere that was rejected, or whose last attempt failed, before
	// it is removed from its stream: dead.Consume sets it. While it fails, or if it is nil, the
	// message stays and is delivered again.
	GiveUp func(ctx context.Context, d *Delivery, code string, reason error) error
}

// Pool is a number of slots that several consumers share, such as those of many tenants. A free
// one goes to the consumer that holds the fewest.
type Pool = fair.Pool

// NewPool returns a pool of so many slots.
func NewPool(size int) *Pool { return fair.NewPool(size) }

// Run passes the messages of a durable consumer to handler until ctx ends. Then
// it stops pulling, requeues the messages that were not started, lets running handlers
// finish within the grace period, and returns when all handlers have returned.
//
//	Run -- pull (into free slots) --> handle -- handler --> settle
//	   |-- turns, if sessions wait for long --> handle
//	   |-- lease keeper, one for all messages
//	   \-- trimmer, if the stream keeps acknowledged messages
func Run(ctx context.Context, b *bus.Bus, c bus.Consumer, cfg Config, handler Handler) error {
	cfg.Slots = cmp.Or(max(cfg.Slots, 0), 64)
	cfg.MaxAttempts = cmp.Or(max(cfg.MaxAttempts, 0), 5)
	cfg.Grace = cmp.Or(max(cfg.Grace, 0), 20*time.Second)
	var cons jetstream.Consumer
	err := bus.UntilAnswered(ctx, b, "cannot find or create the consumer "+c.Name, func() (err error) {
		if cfg.AwaitUse {
			err = b.AwaitUse(ctx, c.Stream)
		}
		if err == nil {
			cons, err = b.Consumer(ctx, c)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	// Handlers continue after the stop, so their context does not end with ctx.
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(cfg.Grace, endWork)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	defer stop()

	k := &consumption{
		bus: b, log: b.Config().Log, consumer: c, cfg: cfg, handler: handler, work: work,
		slots:   fair.NewSlots(cfg.Slots),
		share:   cfg.Pool.Join(0),
		leases:  newLeases(b.Conn(), cons.CachedInfo().Config.AckWait/3),
		trimmer: newTrimmer(b, c),
		idle:    make(chan *nats.Msg),
		pulled:  make(chan struct{}),
	}
	k.consumer.Again = true
	k.found(cons)
	var keeper sync.WaitGroup
	keeper.Go(func() { k.leases.keep(work) })
	if c.Trim != "" {
		keeper.Go(func() { k.trimmer.run(work) })
	}
	var leading sync.WaitGroup
	if cfg.TakeAhead != nil {
		k.turns = newTurns(k)
		leading.Go(func() { k.turns.run(ctx) })
	}
	k.pull(ctx)
	leading.Wait()
	close(k.pulled)
	close(k.idle)
	k.running.Wait()
	endWork()
	keeper.Wait()
	return nil
}

// consumption is one Run in progress.
type consumption struct {
	bus      *bus.Bus
	log      zerolog.Logger
	consumer bus.Consumer
	cfg      Config
	handler  Handler
	work     context.Context // of the handlers; ends with the grace period
	slots    *fair.Slots
	share    *fair.Share // or nil
	leases   *leases
	trimmer  *trimmer
	turns    *turns                    // or nil
	before   atomic.Pointer[time.Time] // bus.DeliveredBefore of the consumer
	number   uint64                    // its last delivery to this process
	idle     chan *nats.Msg            // to idle goroutines; nil ends one
	pulled   chan struct{}             // closed after the last pull
	running  sync.WaitGroup
}

const (
	// idleTimeout is how often idle goroutines end.
	idleTimeout = 10 * time.Second
	// pooledExpiry and pooledHeartbeat are those of the requests of consumers that share a pool.
	pooledExpiry, pooledHeartbeat = time.Minute, 15 * time.Second
)

// pull repeatedly asks the server for as many messages as there are free slots, until
// ctx ends.
func (k *consumption) pull(ctx context.Context) {
	policy := retry.Pauses(100*time.Millisecond, 5*time.Second, 0)
	p := pull.New(k.bus.Conn(), k.bus.API(), k.bus.StreamName(k.consumer.Stream), k.consumer.Name, k.cfg.Slots)
	defer p.Close()
	defer k.share.Received(0)
	if k.share != nil { // one of many consumers, most of which are idle
		p.Expiry, p.Heartbeat = pooledExpiry, pooledHeartbeat
	}
	if k.consumer.Ranked {
		p.Join(bus.RankedGroup, k.cfg.Spare)
	}
	var failing time.Time // since then, or zero
	p.Works = func() {
		failing = time.Time{}
		trouble.Report(ctx, trouble.Consumer, k.consumer.Name, nil)
	}
	idleEnded := time.Now()
	for ctx.Err() == nil {
		if time.Since(idleEnded) >= idleTimeout {
			k.endIdle()
			idleEnded = time.Now()
		}
		n := k.slots.AwaitFree(ctx, k.share.Ask(ctx, min(pull.Max, k.turns.awaitRoom(ctx))))
		if ctx.Err() != nil {
			return
		}
		received, err := p.Pull(ctx, n, func(msg *nats.Msg) { k.dispatch(ctx, msg) })
		k.slots.EndPull()
		k.share.Received(received)
		if received > 0 {
			policy.Reset()
		} else if err == nil {
			signal(k.trimmer.wake)
		}
		if err == nil {
			p.Works()
			continue
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) >= bus.Notice { // a new consumer of a cluster elects its leader first
			trouble.Report(ctx, trouble.Consumer, k.consumer.Name, err)
		}
		if !k.pause(ctx, policy.NextBackOff(), err) {
			return
		}
		if cons, err := k.bus.Consumer(ctx, k.consumer); err == nil { // perhaps it was deleted
			k.found(cons)
		} else if ctx.Err() == nil {
			k.log.Warn().Err(err).Msg("cannot find or create the consumer")
		}
	}
}

// found notes what the present consumer says of those before it.
func (k *consumption) found(cons jetstream.Consumer) {
	before := bus.DeliveredBefore(cons.CachedInfo())
	k.before.Store(&before)
	k.number = 0
}

// count looks for a consumer that counts its deliveries anew: another process made it while this one did not pull.
func (k *consumption) count(ctx context.Context, msg *nats.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		return
	}
	if meta.Sequence.Consumer < k.number {
		if cons, err := k.bus.Consumer(ctx, k.consumer); err == nil {
			k.found(cons)
		} else {
			now := time.Now()
			k.before.Store(&now)
		}
	}
	k.number = meta.Sequence.Consumer
}

// dispatch passes a message to an idle goroutine, or to a new one. Goroutines are
// reused, because their grown stack saves a tenth of the time of a short call.
func (k *consumption) dispatch(ctx context.Context, msg *nats.Msg) {
	if ctx.Err() != nil { // another process can start it immediately
		k.running.Go(func() { k.requeueUnstarted(msg) })
		return
	}
	k.count(ctx, msg)
	k.slots.Take()
	if wait := k.turns.admit(msg.Subject); wait != nil {
		k.slots.Release()
		k.running.Go(func() { k.hold(ctx, msg, wait) })
		return
	}
	select {
	case k.idle <- msg:
	default:
		k.running.Go(func() {
			for ; msg != nil; msg = <-k.idle {
				if detached := k.handle(msg); detached {
					return // their number is not limited, so end it
				}
			}
		})
	}
}

// hold handles a message when it is admitted, and has a slot.
func (k *consumption) hold(ctx context.Context, msg *nats.Msg, admitted <-chan struct{}) {
	k.leases.add(msg)
	select {
	case <-ctx.Done():
	case <-admitted:
		if k.slots.TakeFirst(ctx) {
			k.handle(msg)
			return
		}
	}
	k.leases.remove(msg)
	k.requeueUnstarted(msg)
}

// endIdle ends the idle goroutines, so that a burst leaves none behind.
func (k *consumption) endIdle() {
	for {
		select {
		case k.idle <- nil:
		default:
			return
		}
	}
}

// pause waits, and reports whether to continue.
func (k *consumption) pause(ctx context.Context, d time.Duration, err error) bool {
	if ctx.Err() == nil {
		k.log.Warn().Err(err).Str("consumer", k.consumer.Name).Stringer("retry_in", d.Round(time.Millisecond)).Msg("cannot pull")
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
