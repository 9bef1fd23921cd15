// Package retry repeats what fails, with pauses that grow.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"
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

// Warn returns a function for Do that logs each failure as message.
func Warn(log zerolog.Logger, message string) func(err error, pause time.Duration) {
	return func(err error, pause time.Duration) {
		log.Warn().Err(err).Stringer("retry_in", pause.Round(time.Millisecond)).Msg(message)
	}
}

// Log is Do with pauses of up to 10 s, until limit has passed (0: never). It logs each failure as
// message.
func Log(ctx context.Context, log zerolog.Logger, message string, limit time.Duration, final func(error) bool, do func() error) error {
	if err := do(); err == nil || final(err) { // most succeed, and need no policy
		return err
	}
	return Do(ctx, Pauses(200*time.Millisecond, 10*time.Second, limit), final, Warn(log, message), do)
}
