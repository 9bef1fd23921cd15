// Package retry repeats what fails, with pauses that grow.
package retry

import (
	"context"
	"net/http"
	"strconv"
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

// After returns the pause that a server names in Retry-After-Ms or Retry-After: a number, also with
// a fraction, or a date. It is between 1 ms and most.
func After(header http.Header, most time.Duration) (pause time.Duration, ok bool) {
	if at, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		pause, ok = time.Until(at), true
	}
	inUnits := func(name string, unit time.Duration) {
		if n, err := strconv.ParseFloat(header.Get(name), 64); err == nil {
			pause, ok = time.Duration(min(max(n, 0), float64(most/unit))*float64(unit)), true
		}
	}
	inUnits("Retry-After", time.Second)
	inUnits("Retry-After-Ms", time.Millisecond) // the finer one counts
	if !ok {
		return 0, false
	}
	return min(max(pause, time.Millisecond), most), true
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
