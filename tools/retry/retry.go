// Package retry repeats what fails, with pauses that grow.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Pauses returns the pauses between attempts. They grow from about first to about longest, and
// end when total has passed; 0 means never.
func Pauses(first, longest, total time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(first), backoff.WithMaxInterval(longest), backoff.WithMaxElapsedTime(total))
}

// Do calls do until it succeeds, its error is final, the pauses end, or ctx ends. Before each
// pause it calls failed, which may be nil.
func Do(ctx context.Context, pauses backoff.BackOff, final func(error) bool, failed func(err error, pause time.Duration), do func() error) error {
	return backoff.RetryNotify(func() error {
		err := do()
		if err != nil && final(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(pauses, ctx), failed)
}
