package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	tasksExtension   = "io.modelcontextprotocol/tasks"
	capabilitiesMeta = "io.modelcontextprotocol/clientCapabilities"
	taskPoll         = 1000 // ms, as clients are told
)

// capabilitiesOf returns what a client declared with its request, or when it opened its session.
func capabilitiesOf(meta mcp.Meta, s *mcp.ServerSession) (caps mcp.ClientCapabilities) {
	if declared, ok := meta[capabilitiesMeta]; ok {
		if data, err := json.Marshal(declared); err != nil || json.Unmarshal(data, &caps) != nil {
			return mcp.ClientCapabilities{}
		}
	} else if params := s.InitializeParams(); params != nil && params.Capabilities != nil {
		caps = *params.Capabilities
	}
	return caps
}

func supportsTasks(r *mcp.CallToolRequest) bool {
	_, ok := capabilitiesOf(r.Params.Meta, r.Session).Extensions[tasksExtension]
	return ok
}

// taskFields describe a task.
type taskFields struct {
	mcp.ResultBase
	ResultType    string    `json:"resultType"`
	TaskID        string    `json:"taskId"`
	Status        string    `json:"status"`
	StatusMessage string    `json:"statusMessage,omitempty"`
	CreatedAt     time.Time `json:"createdAt"`
	LastUpdatedAt time.Time `json:"lastUpdatedAt"`
	TTL           *int64    `json:"ttlMs"`
	PollInterval  int64     `json:"pollIntervalMs,omitempty"`
	// InputRequests are questions for the user, if the status is input_required.
	InputRequests mcp.InputRequestMap `json:"inputRequests,omitempty"`
	// Result is set if the task is completed.
	Result *complete           `json:"result,omitempty"`
	result *mcp.CallToolResult // in Result
}

// newTask is the answer to a call that goes on. The call is stored, so tasks/get finds
// it.
func newTask(call tools.Call, created time.Time, message string) *taskFields {
	t := fieldsOf(call.IDToken(), "working", created, time.Now())
	t.ResultType, t.StatusMessage = "task", message
	return t
}

func fieldsOf(id, status string, created, updated time.Time) *taskFields {
	ttl := bus.ResultsKept.Milliseconds()
	return &taskFields{
		ResultType: "complete", TaskID: id, Status: status, TTL: &ttl, PollInterval: taskPoll,
		CreatedAt: created.UTC().Truncate(time.Millisecond), LastUpdatedAt: updated.UTC().Truncate(time.Millisecond),
	}
}

// taskParams are the params of tasks/get, tasks/update and tasks/cancel.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string               `json:"taskId"`
	InputResponses mcp.InputResponseMap `json:"inputResponses,omitempty"`
}

type emptyResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

func (c *client) addTaskMethods(s *mcp.Server) error {
	update := func(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*emptyResult, error) {
		_, err := c.getTask(ctx, p.TaskID, false)
		if err == nil {
			err = c.answer(ctx, p.TaskID, p.InputResponses)
		}
		return &emptyResult{ResultType: "complete"}, err
	}
	return errors.Join(
		mcp.AddReceivingCustomMethod(s, "tasks/get", func(ctx context.Context, s *mcp.ServerSession, p *taskParams) (*taskFields, error) {
			fields, err := c.getTask(ctx, p.TaskID, c.links(s))
			if err == nil && fields.Status == "working" && showsForms(p.Meta, s) {
				err = c.addQuestions(ctx, fields)
			}
			return fields, err
		}),
		mcp.AddReceivingCustomMethod(s, "tasks/update", update),
		mcp.AddReceivingCustomMethod(s, "tasks/cancel", func(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*emptyResult, error) {
			return &emptyResult{ResultType: "complete"}, c.cancelTask(ctx, p.TaskID)
		}),
	)
}

// getTask returns a task from what is stored on the bus.
func (c *client) getTask(ctx context.Context, id string, links bool) (*taskFields, error) {
	b := c.gateway.bus
	if id == "" || len(id) > tools.MaxIDLen {
		return nil, noTask(id)
	}
	token := tools.TokenOf(id)
	events, err := task.ReadResults(ctx, b, c.session, token)
	if err != nil {
		return nil, fmt.Errorf("the task cannot be read now, try again: %w", err)
	}
	if task.Ended(events) {
		event := events[len(events)-1].ResultEvent
		fields := fieldsOf(token, "completed", events[0].StartedAt, event.EndedAt())
		if event.Outcome == tools.Cancelled {
			fields.Status = "cancelled"
			return fields, nil
		}
		fields.result = contentOf(c.session, event, links)
		fields.Result = &complete{result: fields.result}
		return fields, nil
	}
	t, err := task.Get(ctx, b, c.session, token)
	if tools.CodeOf(err) == tools.CodeNotFound {
		return nil, noTask(id)
	}
	if err != nil {
		return nil, fmt.Errorf("the task cannot be read now, try again: %w", err)
	}
	now := time.Now()
	fields := fieldsOf(token, "working", cmp.Or(t.StartedAt, t.QueuedAt, now), now)
	fields.StatusMessage = cmp.Or(t.Progress.Message, strings.TrimSuffix(string(t.State)+": "+t.Message, ": "))
	if p := t.Progress; p.Total > 0 {
		fields.StatusMessage += fmt.Sprintf(" (%.0f%%)", 100*p.Done/p.Total)
	}
	return fields, nil
}

// addQuestions adds the approvals that a task waits for.
func (c *client) addQuestions(ctx context.Context, fields *taskFields) error {
	approvals, err := approvals.For(ctx, c.gateway.bus, tools.CallKey{Session: c.session, ID: fields.TaskID})
	if err == nil && len(approvals) > 0 {
		fields.Status, fields.InputRequests = "input_required", questions(approvals)
	}
	return err
}

func noTask(id string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("there is no task %q in this session", tools.Excerpt(id, 80))}
}

// cancelTask cancels a task. To cancel a task that has ended has no effect.
func (c *client) cancelTask(ctx context.Context, id string) error {
	fields, err := c.getTask(ctx, id, false)
	if err != nil || fields.Status == "completed" { // one that was cancelled may not be cancelled in all its parts
		return err
	}
	_, err = task.Cancel(ctx, c.gateway.bus, c.session, tools.TokenOf(id), "the MCP client")
	if tools.CodeOf(err) == tools.CodeInvalidArguments { // it ended just now
		return nil
	}
	return err
}

// Tools for the models of clients without tasks.
const (
	toolTaskResult = "get_task_result"
	toolTaskCancel = "cancel_task"
)

var taskTools = []*mcp.Tool{
	{
		Name:        toolTaskResult,
		Description: "Get the result of a call that was still running when its answer came. It waits a while for the result.",
		InputSchema: callIDSchema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	},
	{
		Name:        toolTaskCancel,
		Description: "Cancel a call that is still running.",
		InputSchema: callIDSchema, Annotations: &mcp.ToolAnnotations{IdempotentHint: true},
	},
}

var callIDSchema = &jsonschema.Schema{
	Type: "object", Required: []string{"call_id"},
	Properties: map[string]*jsonschema.Schema{"call_id": {Type: "string", Description: "the id of the call, as the earlier answer shows it"}},
}

// taskTool returns what runs one of taskTools; nil for other names.
func (c *client) taskTool(name string) func(context.Context, *mcp.CallToolRequest) (mcp.Result, error) {
	f := map[string]func(context.Context, *mcp.CallToolRequest, string) *mcp.CallToolResult{toolTaskResult: c.taskResult, toolTaskCancel: c.taskCancel}[name]
	if f == nil {
		return nil
	}
	return func(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
		var args struct {
			CallID string `json:"call_id"`
		}
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil || args.CallID == "" {
			return failed("The argument call_id is missing: a text, as the earlier answer shows it."), nil
		}
		return f(ctx, r, args.CallID), nil
	}
}

// taskResult waits for the end of a call.
func (c *client) taskResult(ctx context.Context, r *mcp.CallToolRequest, id string) *mcp.CallToolResult {
	wait, cancel := context.WithTimeout(ctx, c.gateway.cfg.Wait)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		fields, err := c.getTask(ctx, id, c.links(r.Session))
		switch {
		case err != nil:
			return failed("%v", err)
		case fields.Status == "cancelled":
			return failed("The call was cancelled.")
		case fields.result != nil:
			return fields.result
		}
		if tools.Sleep(wait, pause) != nil {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("The call %s is still running (%s). Ask "+
				"again later.", id, fields.StatusMessage)}}}
		}
	}
}

func (c *client) taskCancel(ctx context.Context, _ *mcp.CallToolRequest, id string) *mcp.CallToolResult {
	if err := c.cancelTask(ctx, id); err != nil {
		return failed("%v", err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "The call was cancelled, or had ended."}}}
}
