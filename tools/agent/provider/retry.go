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

// maxInterrupted is how often a response that is cut off restarts the timeout: each
// attempt may cost as much as a complete turn.
const maxInterrupted = 3

// maxProbes and probeTimeout bound how often a provider that failed before is asked, and
// until when a request is repeated.
const (
	maxProbes    = 2
	probeTimeout = 5 * time.Second
)

// retry repeats a request until it succeeds, fails permanently, or the timeout
// has passed. It waits for as long as the provider's Retry-After says, but fails
// immediately if that is longer than the rest of the timeout. A response that is cut
// off may have taken longer than the timeout, so maxInterrupted of them start it again.
//
// A probe asks a provider that failed before, so it is repeated once, and only if the first
// response was a failure that came soon.
func retry(ctx context.Context, timeout time.Duration, probe bool, request func() (agent.Response, error)) (agent.Response, error) {
	requests := 0
	if probe {
		timeout = min(timeout, probeTimeout)
	}
	policy := &retryAfterBackOff{BackOff: backoff.NewExponentialBackOff(backoff.WithInitialInterval(500*time.Millisecond),
		backoff.WithMaxInterval(20*time.Second), backoff.WithMaxElapsedTime(timeout)), until: time.Now().Add(timeout)}
	var res agent.Response
	cutOff := 0
	err := backoff.Retry(func() (err error) {
		res, err = request()
		requests++
		if err != nil && ctx.Err() != nil {
			return backoff.Permanent(context.Cause(ctx))
		}
		failure, ok := errors.AsType[*agent.ProviderError](err)
		if ok && (!failure.Retryable || probe && requests == maxProbes) {
			return backoff.Permanent(failure)
		}
		if ok {
			policy.retryAfter = failure.RetryAfter
		}
		if _, begun := errors.AsType[interrupted](err); begun {
			if cutOff++; cutOff <= maxInterrupted && !probe {
				policy.until = time.Now().Add(timeout)
				policy.Reset()
			}
			return failure
		}
		return err
	}, backoff.WithContext(policy, ctx))
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
