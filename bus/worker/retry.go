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

// storeTimeout is how long the worker retries a failing artifact store before it
// publishes an error result instead of the content: longer than a server restart.
const storeTimeout = 5 * time.Minute

// A failed publish or read does not fail the call: that would count as an attempt
// of a call that did nothing wrong, or run its tool again.

// retry calls do until it succeeds, its error is final, ctx ends, or limit has
// passed (0: no limit). It logs each failure as message.
func (w *Worker) retry(ctx context.Context, message string, limit time.Duration, final func(error) bool, do func() error) error {
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
	}, backoff.WithContext(policy, ctx), func(err error, pause time.Duration) {
		w.log.Warn().Err(err).Dur("retry_in", pause).Msg(message)
	})
}

// publishWithRetry publishes, and retries while the bus is unreachable or full.
func (w *Worker) publishWithRetry(ctx context.Context, msg bus.Message) error {
	msg.Timeout, msg.WaitIfFull = bus.NoTimeout, true
	_, err := w.bus.Publish(ctx, msg)
	return err
}

// readWithRetry reads from the results stream, and retries while the bus is
// unreachable.
func (w *Worker) readWithRetry(ctx context.Context, read func() error) error {
	return w.retry(ctx, "cannot read results", 0, func(err error) bool {
		return errors.Is(err, nats.ErrConnectionClosed)
	}, read)
}

// readResults returns the stored events of a call, and removes forged ones.
func (w *Worker) readResults(ctx context.Context, k key) (stored []task.StoredResult, err error) {
	err = w.readWithRetry(ctx, func() (err error) {
		stored, err = task.CollectResults(w.bus, k.session, k.id, func(subject string) (task.StoredResult, bool, error) {
			return w.readResult(ctx, subject)
		})
		return err
	})
	return stored, err
}

// withStoreRetry retries do while the store fails, for storeTimeout at most. An
// error of the caller and a full store are final.
func (w *Worker) withStoreRetry(ctx context.Context, do func() error) error {
	return w.retry(ctx, "the artifact store fails", storeTimeout, func(err error) bool {
		_, callerError := errors.AsType[*tools.Error](err)
		return callerError || errors.Is(err, offload.ErrQuota)
	}, do)
}
