package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// CallIDMeta is a field of a request's _meta: the id of the call. A client that sends a
// request again with the same id gets the result of the first one, and the tool does
// not run twice.
const CallIDMeta = "io.github.stevedore-bus/callId"

// call answers tools/call.
func (c *client) call(ctx context.Context, r *mcp.CallToolRequest) (res mcp.Result, err error) {
	g := c.gateway
	ctx, end, err := c.cancellable(ctx, r)
	if err != nil {
		return failed("The bus cannot be reached: %v. Nothing was run; try again.", err), nil
	}
	defer end()
	name := r.Params.Name
	info, ok, err := g.tool(ctx, name)
	switch run := c.taskTool(name); {
	case errors.Is(err, task.ErrSilent):
		return failed("Nothing was run: %v. Try again.", err), nil
	case err != nil:
		return failed("The bus cannot be reached: %v. Nothing was run; try again.", err), nil
	case !ok && run != nil:
		return run(ctx, r)
	case !ok:
		return failed("No worker offers the tool %q now. Call tools/list, or start a worker that has it.", tools.Excerpt(name, 80)), nil
	}
	// The result goes to the client's loop, and not to a channel of the user.
	call := tools.Call{ID: artifacts.NewID(name), Session: c.name, Tool: name, Args: r.Params.Arguments, Action: tools.ActionAgent}
	if id, ok := r.Params.Meta[CallIDMeta].(string); ok && id != "" {
		call.ID = id
	}
	if id := r.Params.RequestState; id != "" {
		call.ID = id
	}
	if err := c.answer(ctx, call.ID, r.Params.InputResponses); err != nil {
		return failed("The answer may not have been stored: %v. The call waits; send the request again.", err), nil
	}
	if string(call.Args) == "null" {
		call.Args = nil
	}
	ctx, span := traceCall(ctx, r, call)
	defer func() { endCall(span, res, err) }()
	stop, err := c.forwardProgress(ctx, r, call)
	if err != nil {
		return failed("The bus cannot be reached: %v. Nothing was run; try again.", err), nil
	}
	defer stop()
	return c.await(ctx, r, call, agents.QueueOf(name, info.Queues))
}

// await submits a call and waits for its result. A call that takes long becomes a task
// if the client supports tasks.
func (c *client) await(ctx context.Context, r *mcp.CallToolRequest, call tools.Call, queue string) (mcp.Result, error) {
	g := c.gateway
	limit, tasks := g.cfg.Wait, supportsTasks(r)
	if tasks {
		limit = g.cfg.TaskAfter
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	wait, end := context.WithCancelCause(wait)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer end(nil)
	asking.Go(func() { c.askUser(wait, r, call, end) })
	began := time.Now()
	event, err := rpc.Submit(wait, g.bus, queue, call)
	if err == nil && event.Outcome == tools.Async {
		if tasks {
			return newTask(call, began, "runs in the background"), nil
		}
		event, err = rpc.AwaitCompletion(wait, g.bus, call)
	}
	if approvals, ok := errors.AsType[approvalNeeded](context.Cause(wait)); ok && errors.Is(err, rpc.ErrPending) && ctx.Err() == nil {
		return &inputRequired{ResultType: "input_required", InputRequests: questions(approvals), RequestState: call.ID}, nil
	}
	dead, isDead := errors.AsType[*rpc.DeadLetterError](err)
	if tasks && err != nil && !isDead && !errors.Is(err, rpc.ErrPending) && wait.Err() != nil && ctx.Err() == nil {
		if err = c.enqueue(ctx, queue, call); err == nil { // the server had not stored the call yet
			err = rpc.ErrPending
		}
	}
	switch {
	case err == nil:
		return contentOf(c.session, event, c.links(r.Session)), nil
	case isDead:
		return failed("%v", dead), nil
	case ctx.Err() != nil: // the call may be stored
		c.cancelled(call)
		return nil, ctx.Err()
	case tasks && errors.Is(err, rpc.ErrPending):
		return newTask(call, began, ""), nil
	case errors.Is(err, rpc.ErrPending):
		return c.pending(ctx, call, queue), nil
	}
	if e, ok := errors.AsType[*tools.Error](err); ok {
		return failed("%s", e.Message), nil
	}
	return failed("The call may not have been accepted: %v. Its id is %s; send it again with this id in _meta[%q], and it runs once.",
		err, call.ID, CallIDMeta), nil
}

// enqueue stores a call, unless it is stored.
func (c *client) enqueue(ctx context.Context, queue string, call tools.Call) error {
	ctx, cancel := context.WithTimeout(ctx, c.gateway.cfg.Wait)
	defer cancel()
	_, err := rpc.Enqueue(ctx, c.gateway.bus, queue, call)
	return err
}

// pending is the result of a call that takes too long to wait for.
func (c *client) pending(ctx context.Context, call tools.Call, queue string) *mcp.CallToolResult {
	text := fmt.Sprintf("The call is still running. Its id is %s. Get its result later with %s(call_id=%q); do not call %s again for "+
		"this.", call.ID, toolTaskResult, call.ID, call.Tool)
	if approvals, err := approvals.For(ctx, c.gateway.bus, tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()}); err == nil && len(approvals) > 0 {
		text = fmt.Sprintf("The call waits until a person approves the use of %s. Its id is %s. Get its result later with %s(call_id=%q); "+
			"do not call %s again for this.", approvals[0].Tool, call.ID, toolTaskResult, call.ID, call.Tool)
	} else if ok, err := rpc.HasWorker(ctx, c.gateway.bus, queue, ""); err == nil && !ok || errors.Is(err, task.ErrSilent) {
		t, failed := task.Get(ctx, c.gateway.bus, call.SessionToken(), call.IDToken())
		switch {
		case failed == nil && t.State != task.Queued:
		case err != nil || t.Message != "": // a worker took it, and has died or does not answer
			text = fmt.Sprintf("The call waits, or a worker that does not answer now has it. Its id is %s. Get its result later with %s(call_id=%q); "+
				"do not call %s again for this.", call.ID, toolTaskResult, call.ID, call.Tool)
		default:
			text = fmt.Sprintf("The call waits, because no worker takes calls from the queue %q now. It runs when a worker starts. Its id is "+
				"%s; get its result later with %s(call_id=%q).", queue, call.ID, toolTaskResult, call.ID)
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// cancelTimeout is how long a call is cancelled again whose cancellation fails: the client does not repeat it.
const cancelTimeout = 10 * time.Minute

// cancelled cancels the call of a client that cancelled its request.
func (c *client) cancelled(call tools.Call) {
	final := func(err error) bool { // if the gateway closes, the client may ask another one
		return c.gateway.closing.Load() || tools.CodeOf(err) == tools.CodeInvalidArguments || bus.IsClosed(err)
	}
	if c.gateway.closing.Load() {
		return
	}
	if err := c.cancel(call); err == nil || final(err) {
		return
	}
	go func() { // ends with the time, or with the bus
		ctx, stop := context.WithTimeout(context.Background(), cancelTimeout)
		defer stop()
		for pause := time.Second; tools.Sleep(ctx, pause) == nil; pause = min(2*pause, cancelTimeout/20) {
			if err := c.cancel(call); err == nil || final(err) {
				return
			}
		}
		c.gateway.cfg.Log.Warn().Str("call", call.IDToken()).Str("session", c.session).Msg("cannot cancel a call")
	}()
}

func (c *client) cancel(call tools.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := task.Cancel(ctx, c.gateway.bus, call.SessionToken(), call.IDToken(), "the MCP client")
	if tools.CodeOf(err) == tools.CodeNotFound { // the server may be about to store it
		err = task.RecordCancellation(ctx, c.gateway.bus, call.SessionToken(), call.IDToken())
	}
	return err
}

// forwardProgress sends the progress of a call to a client that asked for it.
func (c *client) forwardProgress(ctx context.Context, r *mcp.CallToolRequest, call tools.Call) (stop func(), err error) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func() {}, nil
	}
	ctx = context.WithoutCancel(ctx) // over HTTP, it has the stream for the response
	last := 0.0
	return rpc.WatchProgress(c.gateway.bus, call, func(e tools.ProgressEvent) {
		// MCP wants numbers that grow; a tool may report only messages.
		last = max(e.Done, last+1e-6)
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: last, Total: e.Total, Message: e.Message,
		}) // fails only if the client is gone
	})
}

// failed is the result of a call that did not run, or whose fate is described.
func failed(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// traceCall begins the span of a request tools/call, below the traceparent in its _meta
// or, over HTTP, in its headers.
func traceCall(ctx context.Context, r *mcp.CallToolRequest, call tools.Call) (context.Context, trace.Span) {
	header, _ := r.Params.Meta[tracing.Header].(string)
	if header == "" && r.Extra != nil {
		header = r.Extra.Header.Get(tracing.Header)
	}
	return tracing.Start(tracing.From(ctx, header), "tools/call "+call.Tool, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		tracing.MCPMethod.String("tools/call"), tracing.ToolName.String(call.Tool), tracing.ToolCall.String(call.IDToken()),
		tracing.Conversation.String(call.Session)))
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
