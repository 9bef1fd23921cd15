package provider

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// maxRetries bounds the repetitions of a request: each may cost as much as a complete turn.
const maxRetries = 10

// repeat repeats a request until it succeeds, fails permanently, or the timeout
// has passed. It waits for as long as the provider's Retry-After says, but fails
// immediately if that is longer than the rest of the timeout. A probe is not repeated.
func repeat(ctx context.Context, timeout time.Duration, probe bool, request func() (agent.Response, error)) (res agent.Response, err error) {
	policy := &retryAfterBackOff{BackOff: retry.Pauses(backoff.DefaultInitialInterval, time.Second, timeout), until: time.Now().Add(timeout)}
	err = retry.Do(ctx, backoff.WithMaxRetries(policy, maxRetries), func(err error) bool {
		failure, ok := errors.AsType[*agent.ProviderError](err)
		if ok {
			policy.retryAfter = failure.RetryAfter
		}
		return ok && (!failure.Retryable || probe || ctx.Err() != nil)
	}, nil, func() (err error) {
		res, err = request()
		return err
	})
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

// retryAfter returns the pause that a provider asks for, or 0.
func retryAfter(header http.Header) time.Duration {
	if pause, _ := retry.After(header, 24*time.Hour); pause > time.Millisecond {
		return pause
	}
	return 0
}
