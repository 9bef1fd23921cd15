package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// busLog translates the errors of session.Store for the agent.
type busLog struct{ *session.Store }

func (l busLog) Append(ctx context.Context, session string, after uint64, entry []byte) (uint64, error) {
	position, err := l.Store.Append(ctx, session, after, entry)
	switch {
	case errors.Is(err, bus.ErrConflict):
		return 0, fmt.Errorf("%w: %w", agent.ErrConflict, err)
	case errors.Is(err, bus.ErrTooLarge):
		return 0, fmt.Errorf("%w: %w", agent.ErrTooLarge, err)
	}
	return position, err
}

// AgentQueue is the queue of agents. Tools and the sub-agents of each depth have
// other queues: agents that take all slots of the queue that they wait for would
// wait for ever.
const AgentQueue = "agent"

func agentQueues(maxDepth int) []string {
	queues := []string{AgentQueue}
	for depth := 1; depth <= maxDepth; depth++ {
		queues = append(queues, fmt.Sprintf("%s-%d", AgentQueue, depth))
	}
	return queues
}

func queueOf(call tools.Call) string {
	switch call.Tool {
	case agent.AgentTool:
		return AgentQueue
	case agent.SubagentTool:
		if depth := agent.DepthOf(call); depth > 0 {
			return fmt.Sprintf("%s-%d", AgentQueue, depth)
		}
		return AgentQueue
	}
	return bus.DefaultQueue
}

// busCaller sends the calls of agents to any worker.
type busCaller struct{ bus *bus.Bus }

// Call submits a call and waits for its result, or returns the stored result of an
// earlier submission. A call that is still queued or running is not published
// again. If the calling agent is cancelled, Call cancels the call.
func (c busCaller) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	event, err := c.call(ctx, call)
	if err != nil && agent.IsCancelled(ctx) {
		cancelling, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		err = errors.Join(err, task.RecordCancellation(cancelling, c.bus, call.SessionToken(), call.IDToken()))
	}
	return event, err
}

func (c busCaller) call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	event, err := rpc.Submit(ctx, c.bus, queueOf(call), call)
	if dead, ok := errors.AsType[*rpc.DeadLetterError](err); ok {
		return event, tools.Errorf(dead.Code, "%v", dead)
	}
	return event, err
}

// answered reports whether a run has its result although its conversation has no
// end entry.
func (c busCaller) answered(ctx context.Context, session, run string) (bool, error) {
	stored, err := task.ReadResults(ctx, c.bus, session, run)
	return len(stored) > 0, err
}

// alive reports whether a worker executes a run.
func (c busCaller) alive(ctx context.Context, session, run string) (bool, error) {
	_, ok, err := task.FindRunning(ctx, c.bus, session, run, task.AskTimeout)
	return ok, err
}
