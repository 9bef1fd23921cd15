package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// busLog keeps conversations on the bus.
type busLog struct{ bus *bus.Bus }

func (l busLog) Read(ctx context.Context, session string) ([][]byte, uint64, error) {
	return l.bus.ReadSession(ctx, session)
}

func (l busLog) Append(ctx context.Context, session string, after uint64, entry []byte) (uint64, error) {
	position, err := l.bus.AppendSession(ctx, session, after, entry)
	switch {
	case errors.Is(err, bus.ErrConflict):
		return 0, fmt.Errorf("%w: %w", agent.ErrConflict, err)
	case errors.Is(err, bus.ErrTooLarge):
		return 0, fmt.Errorf("%w: %w", agent.ErrTooLarge, err)
	}
	return position, err
}

// agentQueue is where agents run, away from the tools that they call, and those
// of each depth away from those that wait for them: agents that held all slots
// of the queue that they wait for would wait for ever.
const agentQueue = "agent"

func agentQueues(maxDepth int) []string {
	queues := []string{agentQueue}
	for depth := 1; depth <= maxDepth; depth++ {
		queues = append(queues, fmt.Sprintf("%s-%d", agentQueue, depth))
	}
	return queues
}

func queueOf(call tools.Call) string {
	switch call.Tool {
	case agent.AgentTool:
		return agentQueue
	case agent.SubagentTool:
		if depth := agent.DepthOf(call); depth > 0 {
			return fmt.Sprintf("%s-%d", agentQueue, depth)
		}
		return agentQueue
	}
	return bus.DefaultQueue
}

// busCaller has tools called by whichever worker is free.
type busCaller struct{ bus *bus.Bus }

// Call submits a call and waits, or takes the result that stands. A call that
// waits or runs still, since long ago, is not made a second time. A cancelled
// caller cancels the call.
func (c busCaller) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	event, err := c.call(ctx, call)
	if err != nil && agent.IsCancelled(ctx) {
		cancelling, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		err = errors.Join(err, task.Cancel(cancelling, c.bus, call.SessionToken(), call.IDToken()))
	}
	return event, err
}

func (c busCaller) call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	event, err := rpc.Submit(ctx, c.bus, queueOf(call), call)
	if dead, ok := errors.AsType[*rpc.DeadError](err); ok {
		return event, tools.Errorf(dead.Code, "%v", dead)
	}
	return event, err
}

// answered reports whether a run has its result although its log has no end.
func (c busCaller) answered(ctx context.Context, session, run string) (bool, error) {
	stored, err := task.ReadResults(ctx, c.bus, session, run)
	return len(stored) > 0, err
}

// alive reports whether a worker has a run.
func (c busCaller) alive(ctx context.Context, session, run string) (bool, error) {
	_, ok, err := task.FindRunning(ctx, c.bus, session, run, task.AskTimeout)
	return ok, err
}
