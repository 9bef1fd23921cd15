package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// persist makes one request after the other until one succeeds, fails for good,
// or patience ends. The provider's Retry-After is kept; one that is longer than
// the patience that is left fails at once, because waiting would be in vain.
func persist(ctx context.Context, patience time.Duration, request func() (Response, error)) (Response, error) {
	policy := &politely{BackOff: backoff.NewExponentialBackOff(backoff.WithInitialInterval(500*time.Millisecond),
		backoff.WithMaxInterval(20*time.Second), backoff.WithMaxElapsedTime(patience)), until: time.Now().Add(patience)}
	var res Response
	err := backoff.Retry(func() (err error) {
		res, err = request()
		if err != nil && ctx.Err() != nil {
			return backoff.Permanent(context.Cause(ctx))
		}
		refused, ok := errors.AsType[*ProviderError](err)
		if ok && !refused.retryable {
			return backoff.Permanent(err)
		}
		if ok {
			policy.asked = refused.RetryAfter
		}
		return err
	}, backoff.WithContext(policy, ctx))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}

// politely waits as long as it was asked to, if it was.
type politely struct {
	backoff.BackOff
	until time.Time
	asked time.Duration
}

func (p *politely) NextBackOff() time.Duration {
	next := p.BackOff.NextBackOff()
	asked := p.asked
	p.asked = 0
	if next == backoff.Stop || asked == 0 {
		return next
	}
	if time.Now().Add(asked).After(p.until) {
		return backoff.Stop
	}
	return asked
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

// unreachable is the error of a request that got no answer, or half of one.
func unreachable(err error, key string) *ProviderError {
	return &ProviderError{Code: CodeUnreachable, Message: cleanError(err.Error(), key), retryable: true}
}

func badAnswer(format string, args ...any) *ProviderError {
	return &ProviderError{Code: CodeBadAnswer, Message: fmt.Sprintf(format, args...)}
}
