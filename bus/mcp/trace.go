package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// traceCall begins the span of a request tools/call, below the traceparent in its _meta
// or, over HTTP, in its headers.
func traceCall(ctx context.Context, r *mcp.CallToolRequest, call tools.Call) (context.Context, trace.Span) {
	header, _ := r.Params.Meta[tracing.Header].(string)
	if header == "" && r.Extra != nil {
		header = r.Extra.Header.Get(tracing.Header)
	}
	return tracing.Start(tracing.From(ctx, header), "tools/call "+call.Tool, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		tracing.MCPMethod.String("tools/call"), tracing.ToolName.String(call.Tool), tracing.ToolCall.String(call.IDToken()), tracing.Conversation.String(call.Session)))
}

// endCall ends the span of a request with its error, whose text may quote content.
func endCall(span trace.Span, res mcp.Result, err error) {
	code := ""
	if result, ok := res.(*mcp.CallToolResult); ok && result.IsError {
		code = "tool_error"
	}
	if err != nil {
		code = "cancelled"
	}
	tracing.End(span, code)
}
