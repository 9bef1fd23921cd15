package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// spawnTool starts sub-agents in the background.
type spawnTool struct {
	resumableTool
	cfg ToolsConfig
}

// ExecuteAsync makes a subagent call whose id follows from the spawn call, so that
// a repeated spawn call starts no second sub-agent.
func (t *spawnTool) ExecuteAsync(ctx context.Context, call tools.Call, callback tools.AsyncCallback) *tools.Result {
	var in taskArgs
	if err := json.Unmarshal(call.Args, &in); err != nil || strings.TrimSpace(in.Task) == "" {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "the task is empty"))
	}
	go func() { callback(ctx, t.cfg.callSubagent(ctx, call)) }()
	return tools.AsyncResult("Subagent spawned, will report back")
}

// subagentCall returns the subagent call of a spawn call.
func subagentCall(call tools.Call) tools.Call {
	call.ID, call.Tool, call.Action = tools.Token(call.ID+"/"+SubagentTool), SubagentTool, tools.ActionAgent
	return call
}

// callSubagent makes the subagent call of a spawn call and waits for its result.
func (c ToolsConfig) callSubagent(ctx context.Context, call tools.Call) *tools.Result {
	event, err := c.Runner.Call(ctx, subagentCall(call))
	if err != nil {
		switch {
		case ctx.Err() == nil:
		case errors.Is(err, ctx.Err()): // the cause says the same in more detail
			err = context.Cause(ctx)
		default:
			err = errors.Join(context.Cause(ctx), err)
		}
		return tools.Failure(err)
	}
	res := event.Result
	if res.IsError && event.Error != nil {
		res.Err = &tools.Error{Code: event.Error.Code, Message: event.Error.Message}
	}
	child := subagentCall(call)
	if end, err := endOf(ctx, c.Conversations, SubagentSession(child), child.IDToken()); !res.IsError && err == nil && end.Reply != "" {
		res.ForUser, res.Markdown = end.Reply, true // only this result contains the whole reply
	}
	return &res
}
