package consume

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// requeueUnstarted requeues a message that arrived after the stop.
func (k *consumption) requeueUnstarted(msg *nats.Msg) {
	d, err := newDelivery(k.bus, msg)
	if err == nil {
		err = k.requeue(d)
	}
	if err != nil {
		k.log.Warn().Err(err).Msg("cannot requeue; the message is redelivered when its lease ends")
	}
}

// handle runs the handler for one message and settles the message. It reports whether
// the handler detached from its slot.
func (k *consumption) handle(msg *nats.Msg) (detached bool) {
	d, err := newDelivery(k.bus, msg)
	if err != nil {
		k.slots.Release()
		k.turns.release(msg.Subject)
		k.log.Error().Err(err).Msg("not a JetStream message")
		return false
	}
	k.leases.add(msg)
	defer k.leases.remove(msg)
	return k.handleDelivery(d)
}

// handleDelivery is handle for a delivery that has a slot.
func (k *consumption) handleDelivery(d *Delivery) (detached bool) {
	d.detach = func() {
		k.share.Release()
		k.slots.Release()
		k.turns.release(d.Subject)
	}
	d.Redelivered = d.Redelivered || d.Published.Before(*k.before.Load())
	if !k.takeShare(d) {
		k.slots.Release()
		k.turns.release(d.Subject)
		return false
	}
	defer k.turns.begin(d)()
	var retry bool
	err := k.readBody(d)
	if err == nil && d.Attempt >= k.cfg.MaxAttempts && k.cfg.ShouldRetry != nil { // it would become a dead letter
		retry, err = k.cfg.ShouldRetry(k.work, d)
	}
	d.Final = d.Attempt >= k.cfg.MaxAttempts && !retry && err == nil
	switch {
	case err != nil:
	case d.Final && d.Attempt > k.cfg.MaxAttempts:
		err = Reject(CodePoison, fmt.Errorf("delivered %s without being settled; the process that handled it died or could not settle it", times(d.Attempt-1)))
	default:
		err = k.attempt(d)
	}
	detached = d.detached.Load()
	k.settle(d, err)
	d.ReleaseSlot()
	return detached
}

// shareTimeout is how long a message waits for a slot of the pool before it is requeued.
const shareTimeout = time.Second

// takeShare takes a slot of the pool. If none gets free soon, it requeues the message, because a
// process that is less busy may run it. A message that is handled ahead waits: its record says
// that this process runs it.
func (k *consumption) takeShare(d *Delivery) bool {
	timeout := shareTimeout
	if d.Ahead {
		timeout = math.MaxInt64
	}
	if k.share.Take(k.work, timeout) {
		return true
	}
	if !d.Ahead {
		k.leases.remove(d.msg)
		_ = d.nak(0) // otherwise the lease ends
	}
	return false
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// attempt runs the handler. A panic is a failed attempt and does not affect other
// messages.
func (k *consumption) attempt(d *Delivery) (verdict error) {
	defer func() {
		if p := recover(); p != nil {
			k.log.Error().Str("subject", d.Subject).Bytes("stack", debug.Stack()).Msg("handler panicked")
			verdict = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return k.handler(k.work, d)
}

// readBody reads the body of a message that was delivered without it: somebody lets the consumer deliver headers only.
func (k *consumption) readBody(d *Delivery) error {
	if d.Header(nats.MsgSize) == "" || len(d.Body) > 0 {
		return nil
	}
	m, err := k.bus.API().GetMessage(k.work, k.bus.StreamName(k.consumer.Stream), jsapi.Get{Sequence: d.Sequence})
	if err != nil {
		k.log.Warn().Err(err).Str("subject", d.Subject).Msg("cannot read the body of a message that was delivered without it")
		return RetryAfter(time.Second, nil)
	}
	d.Body = m.Data
	return nil
}

// settle applies a verdict. If that fails, the lease ends and the server redelivers
// the message.
func (k *consumption) settle(d *Delivery, verdict error) {
	if verdict == nil {
		if err := d.ack(); err != nil {
			k.log.Error().Err(err).Str("subject", d.Subject).Msg("cannot acknowledge; the message will be redelivered")
			return
		}
		k.trimmer.settled(d.Sequence, len(d.Body))
		return
	}
	// A lease extension after a delayed nak would cancel the delay.
	k.leases.remove(d.msg)
	log := k.log.With().Str("subject", d.Subject).Int("attempt", d.Attempt).Logger()
	var (
		rejected  *rejection
		postponed *postponement
		err       error
	)
	switch {
	case k.work.Err() != nil:
		log.Info().AnErr("reason", verdict).Msg("interrupted by the stop; requeued")
		err = k.requeue(d)
	case errors.As(verdict, &rejected):
		log.Error().Err(rejected.err).Str("code", rejected.code).Msg("rejected; it becomes a dead letter")
		err = k.giveUp(d, rejected)
	case errors.As(verdict, &postponed) && postponed.err == nil: // no attempt failed
		err = d.nak(postponed.delay)
	case d.Final:
		log.Error().Err(verdict).Msg("the last attempt failed; the message becomes a dead letter")
		err = k.giveUp(d, &rejection{code: CodeExhausted, err: verdict})
	case postponed != nil:
		log.Warn().Err(postponed.err).Stringer("retry_in", postponed.delay.Round(time.Millisecond)).Msg("handling failed")
		err = d.nak(postponed.delay)
	default:
		delay := RetryDelay(d.Attempt)
		log.Warn().Err(verdict).Stringer("retry_in", delay.Round(time.Millisecond)).Msg("handling failed")
		err = d.nak(delay)
	}
	if err != nil {
		log.Error().Err(err).Msg("cannot settle; the message will be redelivered")
	}
}

// settleTimeout limits publishes after the context of the handler has ended.
const settleTimeout = 10 * time.Second

// giveUp has a message stored elsewhere and then removes it from its stream. In this order, a
// crash between the two leads to a redelivery and not to a loss.
func (k *consumption) giveUp(d *Delivery, why *rejection) error {
	if k.cfg.GiveUp == nil {
		return d.nak(RetryDelay(d.Attempt))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.work), settleTimeout)
	defer cancel()
	if err := k.cfg.GiveUp(ctx, d, why.code, why); err != nil {
		return err
	}
	if err := d.term(why.code); err != nil {
		return err
	}
	// No purge matches a wildcard in a subject, and the consumer would deliver one that was handled ahead.
	if len(k.consumer.Trim) > 0 && (d.Ahead || bus.CheckSubject(d.Subject) != nil) {
		return k.bus.Delete(ctx, k.consumer.Stream, d.Sequence)
	}
	k.trimmer.settled(d.Sequence, len(d.Body))
	return nil
}

// RetryDelay is the delay after a failed attempt (counted from 1) if nothing else decides
// it: full jitter below 1 s, 2 s, 4 s, ... 1 min.
func RetryDelay(attempt int) time.Duration {
	limit := min(time.Second<<min(attempt-1, 6), time.Minute)
	return rand.N(limit) + 50*time.Millisecond
}

// requeue returns an interrupted message to its consumer, so that another process gets it
// immediately.
func (k *consumption) requeue(d *Delivery) error {
	<-k.pulled // otherwise this consumer would get it again
	return d.nak(0)
}
