package provider

import (
	"context"
	"errors"
	"time"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/metrics"
)

var (
	modelDuration = metrics.NewHistogram("stevedore_model_call_duration_seconds",
		"Time of a request to a model, with its repetitions. The outcome is completed or the code of the error.", metrics.Seconds, "provider", "outcome")
	modelTokens = metrics.NewCounter("stevedore_model_tokens_total",
		"Tokens that models reported: input (without those from a cache), cached_input, output.", "provider", "kind")
)

// measured counts the requests to a model.
type measured struct {
	agent.Provider
	kind string // the first part of the spec
}

func (m measured) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	began := time.Now()
	res, err := m.Provider.Complete(ctx, req)
	outcome := "completed"
	if failure, ok := errors.AsType[*agent.ProviderError](err); ok {
		outcome = failure.Code
	} else if err != nil {
		outcome = "interrupted"
	}
	modelDuration.Observe(time.Since(began).Seconds(), m.kind, outcome)
	modelTokens.Add(float64(res.Usage.Input-res.Usage.CachedInput), m.kind, "input")
	modelTokens.Add(float64(res.Usage.CachedInput), m.kind, "cached_input")
	modelTokens.Add(float64(res.Usage.Output), m.kind, "output")
	return res, err
}
