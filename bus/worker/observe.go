package worker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/metrics"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

var (
	callsTotal = metrics.NewCounter("stevedore_calls_total",
		"Results and completions that this process published. An async call counts twice.", "queue", "tool", "outcome")
	callDuration = metrics.NewHistogram("stevedore_call_duration_seconds",
		"Time from the start of a call in this process to its result, or to its completion if it is async.", metrics.Seconds, "queue", "tool")
	queueWait = metrics.NewHistogram("stevedore_queue_wait_seconds",
		"Time from the first publish of a call to its first start.", metrics.Seconds, "queue")
	offloadDuration = metrics.NewHistogram("stevedore_offload_duration_seconds",
		"Time to store a result as an artifact.", metrics.Seconds)
	offloadedBytes = metrics.NewCounter("stevedore_offloaded_bytes_total",
		"Bytes of results that this process stored as artifacts.")
	savedTokens = metrics.NewCounter("stevedore_prompt_tokens_saved_total",
		"Estimated tokens that references kept out of prompts: those of the results minus those of the references.")
)

// toolLabel returns the name of a call's tool, unless this worker lacks it: any client
// can publish any name.
func (a *attempt) toolLabel() string {
	if a.Tool.Name == "" {
		return metrics.Other
	}
	return a.Tool.Name
}

// countWait counts how long a call waited in its queue, once.
func (a *attempt) countWait() {
	if !a.Redelivered && a.Resumed.Number == 0 {
		queueWait.Observe(a.Started.Sub(a.Published).Seconds(), a.Queue)
	}
}

// countResult counts a result or completion that was published.
func (c *counters) countResult(a *attempt, outcome tools.Outcome, took time.Duration) {
	c.add(a.Queue, outcome, took)
	callsTotal.Add(1, a.Queue, a.toolLabel(), string(outcome))
	if outcome != tools.Async {
		callDuration.Observe(took.Seconds(), a.Queue, a.toolLabel())
	}
}

// recordOffload counts and traces a result that the offloader returned, if it was stored
// just now.
func recordOffload(ctx context.Context, res, short *tools.Result, began time.Time) {
	if short.Artifact == nil || res.Artifact != nil {
		return
	}
	_, span := tracing.Start(ctx, "offload", trace.WithTimestamp(began), trace.WithAttributes(
		tracing.Artifact.String(short.Artifact.ID), tracing.ArtifactBytes.Int64(short.Artifact.Size)))
	span.End()
	offloadDuration.Observe(time.Since(began).Seconds())
	offloadedBytes.Add(float64(short.Artifact.Size))
	if !short.Artifact.Inline {
		savedTokens.Add(float64(short.Artifact.Tokens - offload.EstimateTokens(short.ForLLM)))
	}
}

// Stats counts the running calls of a worker and its results since it started.
type Stats struct {
	Worker string                `json:"worker"`
	Queues map[string]QueueStats `json:"queues"`
}

// QueueStats is the part of Stats for one queue.
type QueueStats struct {
	// Running counts the running calls, including async tools in the background.
	Running int `json:"running"`
	// Outcomes counts the published results and completions. An async call counts
	// twice: as async, and with the outcome of its completion.
	Outcomes map[tools.Outcome]int64 `json:"outcomes"`
	// Seconds is the total duration of the calls in Outcomes.
	Seconds float64 `json:"seconds"`
}

// counters holds the counts of each queue.
type counters struct {
	mu     sync.Mutex
	queues map[string]QueueStats
}

func newCounters(queues []string) *counters {
	c := &counters{queues: make(map[string]QueueStats)}
	for _, q := range queues {
		c.queues[q] = QueueStats{Outcomes: make(map[tools.Outcome]int64)}
	}
	return c
}

// add counts a published result or completion.
func (c *counters) add(queue string, outcome tools.Outcome, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.queues[queue]; ok {
		q.Outcomes[outcome]++
		q.Seconds += took.Seconds()
		c.queues[queue] = q
	}
}

// Stats returns the current statistics.
func (w *Worker) Stats() Stats {
	running := w.executions.countByQueue()
	w.results.counters.mu.Lock()
	defer w.results.counters.mu.Unlock()
	s := Stats{Worker: w.cfg.Name, Queues: make(map[string]QueueStats)}
	for name, q := range w.results.counters.queues {
		q.Running, q.Outcomes = running[name], maps.Clone(q.Outcomes)
		s.Queues[name] = q
	}
	return s
}

// The spans of a call in this worker, below the traceparent of its message:
//
//	wait QUEUE          from the publish of the call until this worker got it
//	execute_tool TOOL   until the call is settled
//	  offload           if the result was stored as an artifact
//	  publish result    its traceparent goes into the result

// trace begins the span of an attempt. end ends it with the error of handle, which may quote
// content: only its code is recorded.
func (w *Worker) trace(ctx context.Context, a *attempt) (_ context.Context, end func(error)) {
	ctx = tracing.From(ctx, a.Traceparent())
	if tracing.Off() {
		return ctx, func(error) {}
	}
	waited := []attribute.KeyValue{tracing.System.String("nats"), tracing.MessagingType.String("receive"), tracing.Destination.String(a.Queue)}
	_, wait := tracing.Start(ctx, "wait "+a.Queue, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(a.Published), trace.WithAttributes(waited...))
	wait.End(trace.WithTimestamp(a.Started))
	ctx, span := tracing.Start(ctx, tracing.ExecuteTool+" "+a.toolLabel(), trace.WithTimestamp(a.Started), trace.WithAttributes(
		tracing.Operation.String(tracing.ExecuteTool), tracing.ToolName.String(a.Call.Tool), tracing.ToolType.String("function"), tracing.ToolCall.String(a.Key.ID),
		tracing.Conversation.String(a.Call.Session), tracing.Queue.String(a.Queue), tracing.Attempt.Int(a.Attempt), tracing.Worker.String(w.cfg.Name)))
	return ctx, func(err error) {
		code := a.errorCode
		if rejected, ok := consume.Rejected(err); ok {
			code = rejected
		} else if err != nil && code == "" {
			code = "requeued"
		}
		if a.outcome != "" {
			span.SetAttributes(tracing.Outcome.String(string(a.outcome)))
		}
		tracing.End(span, code)
	}
}

// tracePublish begins the span of the publish of a result, which it puts into the header. Of the
// incoming headers, only the trace is forwarded.
func tracePublish(ctx context.Context, a *attempt, kind string, event tools.ResultEvent, header nats.Header) (_ context.Context, span trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() { // not called by handle
		ctx = tracing.From(ctx, a.Traceparent())
	}
	a.outcome, a.errorCode = event.Outcome, ""
	if event.IsError {
		a.errorCode = string(event.Outcome)
		if event.Error != nil {
			a.errorCode = event.Error.Code
		}
	}
	if span = trace.SpanFromContext(ctx); !tracing.Off() {
		ctx, span = tracing.Start(ctx, "publish "+kind, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(tracing.System.String("nats"),
			tracing.MessagingType.String("send"), tracing.Destination.String(kind), tracing.Outcome.String(string(event.Outcome))))
	}
	tracing.Add(ctx, header)
	return ctx, span
}

// traceTick begins the span of a tick, from its due time until its call is stored. The
// trace of the call continues it.
func traceTick(ctx context.Context, d *consume.Delivery, kind, name string, due time.Time, call tools.Call) (context.Context, trace.Span) {
	return tracing.Start(tracing.From(ctx, d.Traceparent()), "tick "+kind, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithTimestamp(due), trace.WithAttributes(
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
