package provider

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/metrics"
	"github.com/stevedore-bus/stevedore/tools/tracing"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

var (
	modelDuration = metrics.NewHistogram("stevedore_model_call_duration_seconds",
		"Time of a request to a model, with its repetitions. The outcome is completed or the code of the error.", metrics.Seconds, "provider", "outcome")
	modelTokens = metrics.NewCounter("stevedore_model_tokens_total",
		"Tokens that models reported: input (without those from a cache), cached_input, output.", "provider", "kind")
)

// measured counts and traces the requests to a model, and says what they cost.
type measured struct {
	agent.Provider
	kind, model string // the parts of the spec
	price       Price
}

func (m measured) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	began := time.Now()
	ctx, span := tracing.Start(ctx, tracing.Chat+" "+m.model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		tracing.Operation.String(tracing.Chat), tracing.Provider.String(m.kind), tracing.RequestModel.String(m.model)))
	res, err := m.Provider.Complete(ctx, req)
	if err == nil {
		count(&res, req)
	}
	res.Usage.Cost = cmp.Or(res.Usage.Cost, m.price.Cost(res.Usage)) // a script may have set it
	outcome := "completed"
	failure, ok := errors.AsType[*agent.ProviderError](err)
	name := m.kind + ":" + m.model
	report := func(outage, refusal error) {
		trouble.Report(ctx, trouble.Model, name, outage)
		trouble.Report(ctx, trouble.ModelRefused, name, refusal)
	}
	switch {
	case err == nil:
		report(nil, nil)
	case ok && slices.Contains([]string{agent.CodeBadKey, agent.CodeNoCredit, agent.CodeUnknownModel, agent.CodeBadAnswer}, failure.Code):
		report(nil, err) // runs do not wait for it
	case ok && isOutage(failure):
		report(err, nil)
	}
	if ok {
		outcome, failure.Model = failure.Code, name
	} else if err != nil {
		outcome = "interrupted"
	}
	code := ""
	if err != nil {
		code = outcome
	}
	span.SetAttributes(tracing.InputTokens.Int64(res.Usage.Input), tracing.CachedTokens.Int64(res.Usage.CachedInput), tracing.OutputTokens.Int64(res.Usage.Output))
	if res.Model != "" {
		span.SetAttributes(tracing.ResponseModel.String(res.Model))
	}
	if res.StopReason != "" {
		span.SetAttributes(tracing.FinishReasons.StringSlice([]string{string(res.StopReason)}))
	}
	tracing.End(span, code)
	modelDuration.Observe(time.Since(began).Seconds(), m.kind, outcome)
	modelTokens.Add(float64(res.Usage.Input-res.Usage.CachedInput), m.kind, "input")
	modelTokens.Add(float64(res.Usage.CachedInput), m.kind, "cached_input")
	modelTokens.Add(float64(res.Usage.Output), m.kind, "output")
	return res, err
}

// count estimates what the usage of a response does not say: budgets must count each turn.
func count(res *agent.Response, req agent.Request) {
	u := &res.Usage
	if u.Input <= 0 {
		u.Input = req.EstimateTokens()
	}
	if u.Output <= 0 {
		u.Output = 0
		for _, b := range res.Content {
			u.Output += offload.EstimateTokens(b.Text) + offload.EstimateTokens(string(b.Input))
		}
	}
	u.CachedInput = min(max(u.CachedInput, 0), u.Input)
}

// isOutage reports whether the same request can succeed later.
func isOutage(failure *agent.ProviderError) bool {
	return failure.Retryable || failure.Code == agent.CodeNoCredit
}
