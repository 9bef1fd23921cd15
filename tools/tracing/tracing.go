// Package tracing makes the spans of calls and carries their trace over the bus. Spans
// never record arguments, results, prompts or answers.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of the GenAI conventions of OpenTelemetry. Its packages of constants do not
// contain them any more.
const (
	Operation     = attribute.Key("gen_ai.operation.name")
	Provider      = attribute.Key("gen_ai.provider.name")
	RequestModel  = attribute.Key("gen_ai.request.model")
	ResponseModel = attribute.Key("gen_ai.response.model")
	FinishReasons = attribute.Key("gen_ai.response.finish_reasons")
	InputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	CachedTokens  = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	OutputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	ToolName      = attribute.Key("gen_ai.tool.name")
	ToolCall      = attribute.Key("gen_ai.tool.call.id")
	ToolType      = attribute.Key("gen_ai.tool.type")
	Agent         = attribute.Key("gen_ai.agent.name")
	Conversation  = attribute.Key("gen_ai.conversation.id")
)

// Values of Operation.
const (
	ExecuteTool = "execute_tool"
	InvokeAgent = "invoke_agent"
	Chat        = "chat"
)

// Other attributes: those of the general conventions, and our own.
const (
	errorType     = attribute.Key("error.type")
	System        = attribute.Key("messaging.system") // "nats"
	Destination   = attribute.Key("messaging.destination.name")
	MessagingType = attribute.Key("messaging.operation.type")
	Queue         = attribute.Key("stevedore.queue")
	Attempt       = attribute.Key("stevedore.attempt")
	Outcome       = attribute.Key("stevedore.outcome")
	Worker        = attribute.Key("stevedore.worker")
	Artifact      = attribute.Key("stevedore.artifact.id")
	ArtifactBytes = attribute.Key("stevedore.artifact.bytes")
	Channel       = attribute.Key("stevedore.channel")
	Turns         = attribute.Key("stevedore.agent.turns")
	Schedule      = attribute.Key("stevedore.schedule")
	MCPMethod     = attribute.Key("mcp.method.name")
	HTTPMethod    = attribute.Key("http.request.method")
	HTTPRoute     = attribute.Key("http.route")
	HTTPStatus    = attribute.Key("http.response.status_code")
)

var noTracer = otel.GetTracerProvider()

// Off reports whether the process has no tracer, so that callers for which the attributes of a
// span cost too much need not begin one.
func Off() bool { return otel.GetTracerProvider() == noTracer }

// Start begins a span below that of ctx. Without a tracer it does nothing, but ctx keeps
// its trace.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return otel.Tracer("github.com/stevedore-bus/stevedore").Start(ctx, name, options...)
}

// End ends a span. code is that of an error, or "".
func End(span trace.Span, code string) {
	if code != "" {
		span.SetStatus(codes.Error, code)
		span.SetAttributes(errorType.String(code))
	}
	span.End()
}

type stepsKey struct{}

// OnStep returns a context in which a worker or a run of an agent calls f before each of its
// steps. It is for tests, which crash the process in f.
func OnStep(ctx context.Context, f func(step string)) context.Context {
	return context.WithValue(ctx, stepsKey{}, f)
}

// Steps returns the function of OnStep, or one that does nothing.
func Steps(ctx context.Context) func(step string) {
	if f, ok := ctx.Value(stepsKey{}).(func(string)); ok {
		return f
	}
	return func(string) {}
}

// Header is the header of messages that carries the trace.
const Header = "traceparent"

var propagator = propagation.TraceContext{}

// From returns ctx with the trace of a header; an empty or malformed one changes nothing.
func From(ctx context.Context, header string) context.Context {
	if header == "" {
		return ctx
	}
	return propagator.Extract(ctx, propagation.MapCarrier{Header: header})
}

// headerOf returns the header with the trace of ctx, or "" if ctx has none.
func headerOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier[Header]
}

// Add adds the trace of ctx to the headers of a message.
func Add(ctx context.Context, header map[string][]string) {
	if value := headerOf(ctx); value != "" {
		header[Header] = []string{value}
	}
}
