package worker

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// The spans of a call in this worker, below the traceparent of its message:
//
//	wait QUEUE          from the publish of the call until this worker got it
//	execute_tool TOOL   until the call is settled
//	  offload           if the result was stored as an artifact
//	  publish result    its traceparent goes into the result

// startSpan begins the span of an attempt. The caller ends it with endSpan.
func (w *Worker) startSpan(ctx context.Context, a *attempt) (context.Context, trace.Span) {
	ctx = tracing.From(ctx, a.delivery.Traceparent())
	waited := []attribute.KeyValue{tracing.System.String("nats"), tracing.MessagingType.String("receive"), tracing.Destination.String(a.queue)}
	_, wait := tracing.Start(ctx, "wait "+a.queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(a.delivery.Published), trace.WithAttributes(waited...))
	wait.End(trace.WithTimestamp(a.started))
	return tracing.Start(ctx, tracing.ExecuteTool+" "+a.toolLabel(), trace.WithTimestamp(a.started), trace.WithAttributes(
		tracing.Operation.String(tracing.ExecuteTool), tracing.ToolName.String(a.call.Tool), tracing.ToolType.String("function"), tracing.ToolCall.String(a.key.ID),
		tracing.Conversation.String(a.call.Session), tracing.Queue.String(a.queue), tracing.Attempt.Int(a.delivery.Attempt), tracing.Worker.String(w.cfg.Name)))
}

// endSpan ends the span of an attempt with the error of handle, which may quote content:
// only its code is recorded.
func endSpan(span trace.Span, a *attempt, err error) {
	code := a.errorCode
	if rejected, ok := bus.Rejected(err); ok {
		code = rejected
	} else if err != nil && code == "" {
		code = "requeued"
	}
	if a.outcome != "" {
		span.SetAttributes(tracing.Outcome.String(string(a.outcome)))
	}
	tracing.End(span, code)
}

// traceOffload records that a result was stored as an artifact.
func traceOffload(ctx context.Context, res, short *tools.Result, began time.Time) {
	if short.Artifact == nil || res.Artifact != nil {
		return
	}
	_, span := tracing.Start(ctx, "offload", trace.WithTimestamp(began), trace.WithAttributes(
		tracing.Artifact.String(short.Artifact.ID), tracing.ArtifactBytes.Int64(short.Artifact.Size)))
	span.End()
}

// tracePublish begins the span of the publish of a result.
func (w *Worker) tracePublish(ctx context.Context, a *attempt, kind string, event tools.ResultEvent) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() { // not called by handle
		ctx = tracing.From(ctx, a.delivery.Traceparent())
	}
	a.outcome, a.errorCode = event.Outcome, ""
	if event.IsError {
		a.errorCode = string(event.Outcome)
		if event.Error != nil {
			a.errorCode = event.Error.Code
		}
	}
	return tracing.Start(ctx, "publish "+kind, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		tracing.System.String("nats"), tracing.MessagingType.String("send"), tracing.Destination.String(kind), tracing.Outcome.String(string(event.Outcome))))
}

// traceTick begins the span of a tick, from its due time until its call is stored. The
// trace of the call continues it.
func traceTick(ctx context.Context, d *bus.Delivery, kind, name string, due time.Time, call tools.Call) (context.Context, trace.Span) {
	return tracing.Start(tracing.From(ctx, d.Traceparent()), "tick "+kind, trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(due), trace.WithAttributes(
		tracing.System.String("nats"), tracing.MessagingType.String("send"), tracing.Schedule.String(name),
		tracing.ToolName.String(call.Tool), tracing.ToolCall.String(call.IDToken()), tracing.Conversation.String(call.Session)))
}

func endTick(span trace.Span, err error) {
	code := ""
	if err != nil && !errors.Is(err, bus.ErrSubjectExists) {
		code = "requeued"
	}
	tracing.End(span, code)
}
