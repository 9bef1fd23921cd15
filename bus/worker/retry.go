package worker

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// keepTrying runs do until it succeeds, its error is final, ctx ends, or limit
// is over; a limit of 0 is none. what says in the log what does not succeed.
func (w *Worker) keepTrying(ctx context.Context, what string, limit time.Duration, final func(error) bool, do func() error) error {
	err := do()
	if err == nil || final(err) {
		return err
	}
	policy := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond),
		backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(limit))
	return backoff.RetryNotify(func() error {
		err := do()
		if err != nil && final(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx), func(err error, again time.Duration) {
		w.log.Warn().Err(err).Dur("again_in", again).Msg(what)
	})
}

// persist publishes, and goes on trying while the bus is away or full: giving up
// would count as a failed attempt of a call that did nothing wrong, or mean
// running its tool again.
func (w *Worker) persist(ctx context.Context, msg bus.Message) error {
	return w.keepTrying(ctx, "cannot publish", 0, func(err error) bool {
		return errors.Is(err, bus.ErrTaken) || errors.Is(err, bus.ErrTooLarge) || errors.Is(err, nats.ErrConnectionClosed)
	}, func() error {
		_, err := w.bus.Publish(ctx, msg)
		return err
	})
}

// reading reads from the results stream, and goes on trying while the bus is
// away: failing would count as an attempt of a call that did nothing wrong.
func (w *Worker) reading(ctx context.Context, read func() error) error {
	return w.keepTrying(ctx, "cannot read results", 0, func(err error) bool {
		return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, task.ErrUnreadable)
	}, read)
}

// readResults returns what stands on the bus for a call.
func (w *Worker) readResults(ctx context.Context, k key) (stored []task.StoredResult, err error) {
	err = w.reading(ctx, func() (err error) {
		stored, err = task.ReadResults(ctx, w.bus, k.session, k.id)
		return err
	})
	return stored, err
}

// store does what a failing store keeps from succeeding, for a while and here:
// running the tool again would cost more and may not be allowed. What the caller
// did wrong, and a full store, will not heal.
func (w *Worker) store(ctx context.Context, do func() error) error {
	return w.keepTrying(ctx, "the store fails", w.cfg.StoreTimeout, func(err error) bool {
		_, wrong := errors.AsType[*tools.Error](err)
		return wrong || errors.Is(err, offload.ErrQuota)
	}, do)
}
