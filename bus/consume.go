package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
)

// ConsumeConfig bounds what a consumer holds. The zero value works.
type ConsumeConfig struct {
	// Slots is how many messages are handled at once; no more are pulled.
	// Handlers that wait for something else (see Delivery.Detach) come on top.
	// Default 64.
	Slots int
	// MaxAttempts is how often a message is delivered before it becomes a dead
	// letter. Default 5.
	MaxAttempts int
	// Grace is how long running handlers may go on after a stop before their
	// contexts end. Default 20 s.
	Grace time.Duration
	// ShouldRetry, if not nil, reports whether a message that was delivered so often
	// is not at fault for it, because its handling gets on; it is not given up
	// on then.
	ShouldRetry func(ctx context.Context, d *Delivery) (bool, error)
	// OnDeadLetter, if not nil, is called when a message has become a dead letter,
	// before it is taken off its stream: for whoever waits for its end. The
	// letter is without its body. It may be called again for the same message;
	// while it fails, the message stays.
	OnDeadLetter func(ctx context.Context, d *Delivery, letter StoredDeadLetter) error
}

// Consume hands the messages of a durable consumer to handler until ctx ends.
// Then it stops pulling, hands back what was not started, lets what runs finish
// within the grace period, and returns when all handlers returned.
//
//	Consume -- pull (into free slots) --> handle -- handler --> settle
//	       \-- lease keeper, one for all messages
func (b *Bus) Consume(ctx context.Context, c Consumer, cfg ConsumeConfig, handler Handler) error {
	if cfg.Slots <= 0 {
		cfg.Slots = 64
	}
	if cfg.MaxAttempts <= 0 {
		cfg.MaxAttempts = 5
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 20 * time.Second
	}
	cons, err := b.consumer(ctx, c)
	switch {
	case ctx.Err() != nil:
		return nil // stopped before it began
	case err != nil:
		return err
	}
	// Work outlives the stop: it has contexts of its own.
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(cfg.Grace, endWork)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	defer stop()

	k := &consumption{
		bus: b, consumer: c, cfg: cfg, handler: handler, work: work,
		slots:  newSlots(cfg.Slots),
		leases: newLeases(b.nc, cons.CachedInfo().Config.AckWait/3),
		idle:   make(chan *nats.Msg),
		pulled: make(chan struct{}),
	}
	var keeper sync.WaitGroup
	keeper.Go(func() { k.leases.keep(work) })
	k.pull(ctx)
	close(k.pulled)
	close(k.idle)
	k.running.Wait()
	endWork()
	keeper.Wait()
	return nil
}

// consumption is one running Consume.
type consumption struct {
	bus      *Bus
	consumer Consumer
	cfg      ConsumeConfig
	handler  Handler
	work     context.Context // of the handlers; ends with the grace period
	slots    *slots
	leases   *leases
	idle     chan *nats.Msg // to the goroutines that have nothing to do
	pulled   chan struct{}  // closed when nothing is pulled any more
	running  sync.WaitGroup
}

// pull asks the server for as many messages as there are free slots, again and
// again, until ctx ends.
func (k *consumption) pull(ctx context.Context) {
	policy := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	p := newPuller(k.bus.nc, k.bus.api, k.bus.StreamName(k.consumer.Stream), k.consumer.Name)
	defer p.close()
	for {
		n := k.slots.reserve(ctx)
		if n == 0 {
			return
		}
		received, err := p.pull(ctx, n, func(msg *nats.Msg) { k.take(ctx, msg) })
		k.slots.release(n - received)
		if received > 0 {
			policy.Reset()
		}
		if err == nil {
			continue
		}
		if !k.pause(ctx, policy.NextBackOff(), err) {
			return
		}
		if _, err := k.bus.consumer(ctx, k.consumer); err != nil && ctx.Err() == nil { // deleted, perhaps
			k.bus.log.Warn().Err(err).Msg("the consumer does not answer")
		}
	}
}

// take gives a message to an idle goroutine, or to a new one. They are kept,
// because a stack that has grown already saves a tenth of the time of a short
// call.
func (k *consumption) take(ctx context.Context, msg *nats.Msg) {
	if ctx.Err() != nil { // stopping: not started, so somebody else may at once
		k.running.Go(func() { k.decline(msg) })
		return
	}
	select {
	case k.idle <- msg:
	default:
		k.running.Go(func() {
			for ; msg != nil; msg = <-k.idle {
				if detached := k.handle(msg); detached {
					return // there may be any number of these
				}
			}
		})
	}
}

// pause waits, and reports whether to go on.
func (k *consumption) pause(ctx context.Context, d time.Duration, err error) bool {
	if ctx.Err() == nil {
		k.bus.log.Warn().Err(err).Str("consumer", k.consumer.Name).Dur("again_in", d).Msg("cannot pull")
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// decline hands back a message that came when the stop had begun.
func (k *consumption) decline(msg *nats.Msg) {
	d, err := newDelivery(k.bus.nc, k.bus.out, msg)
	if err == nil {
		err = k.handBack(d)
	}
	if err != nil {
		k.bus.log.Warn().Err(err).Msg("cannot hand back; the message comes again when its lease ends")
	}
}

// handle takes one message from its delivery to its verdict, and reports whether
// its slot was given away meanwhile.
func (k *consumption) handle(msg *nats.Msg) (detached bool) {
	d, err := newDelivery(k.bus.nc, k.bus.out, msg)
	if err != nil {
		k.slots.release(1)
		k.bus.log.Error().Err(err).Msg("not a JetStream message")
		return false
	}
	d.detach = func() { k.slots.release(1) }
	k.leases.add(msg)
	defer k.leases.remove(msg)
	spared, err := k.spare(d)
	d.Final = d.Attempt >= k.cfg.MaxAttempts && !spared && err == nil
	switch {
	case err != nil:
	case d.Final && d.Attempt > k.cfg.MaxAttempts:
		err = Reject(CodePoison, fmt.Errorf("delivered %s without being settled; the process that handled it died, or could not say what became of it", times(d.Attempt-1)))
	default:
		err = k.attempt(d)
	}
	detached = d.detached.Load()
	k.settle(d, err)
	d.Detach()
	return detached
}

// spare asks about a message that is about to be given up on.
func (k *consumption) spare(d *Delivery) (bool, error) {
	if d.Attempt < k.cfg.MaxAttempts || k.cfg.ShouldRetry == nil {
		return false, nil
	}
	return k.cfg.ShouldRetry(k.work, d)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// attempt runs the handler. A panic is a failed attempt like any other: the
// other messages of this process have no part in it.
func (k *consumption) attempt(d *Delivery) (verdict error) {
	defer func() {
		if p := recover(); p != nil {
			k.bus.log.Error().Str("subject", d.Subject).Bytes("stack", debug.Stack()).Msg("handler panicked")
			verdict = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return k.handler(k.work, d)
}

// settle carries out a verdict. Whatever fails here leaves the message to its
// lease, and so to another delivery.
func (k *consumption) settle(d *Delivery, verdict error) {
	if verdict == nil {
		if err := d.ack(); err != nil {
			k.bus.log.Error().Err(err).Str("subject", d.Subject).Msg("cannot acknowledge; the message comes again")
		}
		return
	}
	// An extension that is sent behind a delayed nak would undo the delay.
	k.leases.remove(d.msg)
	log := k.bus.log.With().Str("subject", d.Subject).Int("attempt", d.Attempt).Logger()
	var (
		rejected  *rejection
		postponed *postponement
		err       error
	)
	switch {
	case k.work.Err() != nil:
		log.Info().AnErr("reason", verdict).Msg("interrupted by the stop; handed back")
		err = k.handBack(d)
	case errors.As(verdict, &rejected):
		log.Error().Err(rejected.err).Str("code", rejected.code).Msg("gave up; kept as a dead letter")
		err = k.bury(d, rejected)
	case d.Final:
		log.Error().Err(verdict).Msg("gave up after the last attempt; kept as a dead letter")
		err = k.bury(d, &rejection{code: CodeExhausted, err: verdict})
	case errors.As(verdict, &postponed):
		log.Warn().Err(postponed.err).Dur("again_in", postponed.delay).Msg("handling failed")
		err = d.nak(postponed.delay)
	default:
		delay := retryDelay(d.Attempt)
		log.Warn().Err(verdict).Dur("again_in", delay).Msg("handling failed")
		err = d.nak(delay)
	}
	if err != nil {
		log.Error().Err(err).Msg("cannot settle; the message comes again")
	}
}

// retryDelay is full jitter below 1 s, 2 s, 4 s, ... 1 min.
func retryDelay(attempt int) time.Duration {
	limit := min(time.Second<<min(attempt-1, 6), time.Minute)
	return rand.N(limit) + 50*time.Millisecond
}
