package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// spawnArgs are the arguments of the spawn tool.
type spawnArgs struct {
	taskArgs
	Delivery tools.Delivery `json:"delivery,omitempty" jsonschema:"who gets the report: user, parent (you, in this conversation) or both; default both"`
}

// deliveryOf returns the delivery in the arguments of a spawn call, or "".
func deliveryOf(args json.RawMessage) tools.Delivery {
	var in spawnArgs
	_ = json.Unmarshal(args, &in) // the tool says what is wrong
	return in.Delivery
}

// spawnTool starts sub-agents in the background.
type spawnTool struct {
	resumableTool
	cfg ToolsConfig
}

// ExecuteAsync makes a subagent call whose id follows from the spawn call, so that
// a repeated spawn call starts no second sub-agent.
func (t *spawnTool) ExecuteAsync(ctx context.Context, call tools.Call, callback tools.AsyncCallback) *tools.Result {
	var in spawnArgs
	if err := json.Unmarshal(call.Args, &in); err != nil || strings.TrimSpace(in.Task) == "" {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "the task is empty"))
	}
	switch in.Delivery {
	case "", tools.DeliverUser, tools.DeliverParent, tools.DeliverBoth:
	default:
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "delivery %q: want user, parent or both", tools.Excerpt(string(in.Delivery), 80)))
	}
	go func() { callback(ctx, t.cfg.callSubagent(ctx, call)) }()
	return tools.AsyncResult("Subagent spawned, will report back")
}

// callSubagent makes the subagent call of a spawn call and waits for its result.
func (c ToolsConfig) callSubagent(ctx context.Context, call tools.Call) *tools.Result {
	child, _ := ChildCall(call)
	event, err := makeCall(ctx, c.Runner, child)
	if err != nil {
		return tools.Failure(cmp.Or(context.Cause(ctx), err)) // the cause says more
	}
	res := event.Result
	if res.IsError {
		if event.Error != nil {
			res.Err = &tools.Error{Code: event.Error.Code, Message: event.Error.Message}
		}
		return &res
	}
	var end Outcome
	err = retry.Do(ctx, backOff(outageTimeout), func(error) bool { return false }, nil, func() (err error) {
		end, err = endOf(ctx, c.Conversations, SubagentSession(child), child.IDToken())
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return tools.Failure(context.Cause(ctx))
	case err == nil && end.Reply != "":
		res.ForUser, res.Markdown = end.Reply, true // only this result contains the whole reply
	}
	return &res
}
