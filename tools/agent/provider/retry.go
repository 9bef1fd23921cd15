package provider

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// maxRetries bounds the repetitions of a request: each may cost as much as a complete turn.
const maxRetries = 10

// retry repeats a request until it succeeds, fails permanently, or the timeout
// has passed. It waits for as long as the provider's Retry-After says, but fails
// immediately if that is longer than the rest of the timeout. A probe is not repeated.
func retry(ctx context.Context, timeout time.Duration, probe bool, request func() (agent.Response, error)) (res agent.Response, err error) {
	policy := &retryAfterBackOff{BackOff: backoff.NewExponentialBackOff(
		backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(timeout)), until: time.Now().Add(timeout)}
	err = backoff.Retry(func() (err error) {
		res, err = request()
		failure, ok := errors.AsType[*agent.ProviderError](err)
		switch {
		case !ok:
			return err
		case !failure.Retryable || probe || ctx.Err() != nil:
			return backoff.Permanent(failure)
		}
		policy.retryAfter = failure.RetryAfter
		return failure
	}, backoff.WithContext(backoff.WithMaxRetries(policy, maxRetries), ctx))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}

// retryAfterBackOff replaces the next interval by the provider's Retry-After.
type retryAfterBackOff struct {
	backoff.BackOff
	until      time.Time
	retryAfter time.Duration // of the last response; 0 if it had none
}

func (b *retryAfterBackOff) NextBackOff() time.Duration {
	next := b.BackOff.NextBackOff()
	wait := b.retryAfter
	b.retryAfter = 0
	if next == backoff.Stop || wait == 0 {
		return next
	}
	if time.Now().Add(wait).After(b.until) {
		return backoff.Stop
	}
	return wait
}

// retryAfter reads the header in its three forms: retry-after-ms, seconds (also
// with a fraction), and a date.
func retryAfter(header http.Header) time.Duration {
	for name, unit := range map[string]time.Duration{"Retry-After-Ms": time.Millisecond, "Retry-After": time.Second} {
		if n, err := strconv.ParseFloat(header.Get(name), 64); err == nil && n > 0 && n < 1e6 {
			return time.Duration(n * float64(unit))
		}
	}
	if at, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
