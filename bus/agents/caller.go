// Package agents connects the agents of tools/agent to the bus. Their conversations are
// session logs, their calls are calls on the bus, and the messages of users become calls of
// the agent:
//
//   - NewToolsConfig: the runner of an agent's calls, its log, and what is known of its runs
//   - Inbox: a message that a channel received becomes a call, /stop a cancellation, and the
//     answer to a question an approval; the chat shows what the run does
//   - Conversations: completions of background tasks, and messages of other sessions, become
//     notices in the conversation that they concern
//   - Tasks, Sender, OutputSender: what the tools of an agent and its runs tell the user
//
// Everything that is kept has a key that follows from the message or call that caused it, so
// work that is repeated after a crash changes nothing.
//
// A worker that runs agents with the tools of its registry, beside what package worker shows:
//
//	model, err := provider.Open("anthropic:MODEL", provider.Config{APIKey: key})
//	setup := agents.NewToolsConfig(b, store, log)
//	setup.Models, setup.DefaultModel = map[string]agent.Provider{"m": model}, "m"
//	setup.Definitions = registry.Definitions
//	agentTools, err := agent.Tools(setup)
//	err = registry.Register(agentTools...)
//	w := worker.New(b, registry, offloader, worker.Config{Queues: append(agents.Queues(2), bus.DefaultQueue)})
//
// A prompt is a call: rpc.Submit(ctx, b, bus.AgentQueue, tools.Call{Session: "s1",
// Tool: agent.AgentTool, Args: json.RawMessage(`{"prompt":"Hello."}`)}).
package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
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

// Queues returns the queues of agents and of their sub-agents down to a depth. Each depth
// has its own queue, so that waiting agents cannot take all slots from the sub-agents that
// they wait for.
func Queues(maxDepth int) []string {
	queues := []string{bus.AgentQueue}
	for depth := 1; depth <= maxDepth; depth++ {
		queues = append(queues, fmt.Sprintf("%s-%d", bus.AgentQueue, depth))
	}
	return queues
}

// IsQueue reports whether a queue is one of agents or sub-agents. A worker without a model cannot run its calls.
func IsQueue(name string) bool {
	return name == bus.AgentQueue || strings.HasPrefix(name, bus.AgentQueue+"-")
}

func queueOf(call tools.Call) string {
	switch call.Tool {
	case agent.AgentTool:
		return bus.AgentQueue
	case agent.SubagentTool:
		if depth := agent.DepthOf(call); depth > 0 {
			return fmt.Sprintf("%s-%d", bus.AgentQueue, depth)
		}
		return bus.AgentQueue
	}
	return bus.DefaultQueue
}

// QueueOf returns the queue for the calls of a tool that workers offer on queues.
func QueueOf(tool string, queues []string) string {
	if queue := queueOf(tools.Call{Tool: tool}); queue != bus.DefaultQueue || len(queues) == 0 || slices.Contains(queues, queue) {
		return queue
	}
	return queues[0]
}

// NewToolsConfig connects agents to the bus and to the store: their conversations,
// their calls, and the results that move out of their history.
func NewToolsConfig(b *bus.Bus, store offload.Store, log zerolog.Logger) agent.ToolsConfig {
	caller := busCaller{bus: b}
	return agent.ToolsConfig{
		Runner: caller, Conversations: busLog{session.New(b)}, Files: offload.NewReader(store, offload.ReaderConfig{}),
		Config: agent.Config{
			Offloader: agent.NewHistoryOffloader(store), EndOf: caller.endOf, IsRunning: caller.alive, Parked: caller.parked, Earlier: caller.earlier, Log: log,
		},
	}
}

// busCaller sends the calls of agents to any worker.
type busCaller struct{ bus *bus.Bus }

// Call submits a call and waits for its result, or returns the stored result of an
// earlier submission. A call that is still queued or running is not published
// again. If the calling agent is cancelled, Call cancels the call.
func (c busCaller) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	event, err := c.callUntilParked(ctx, call)
	if err != nil && agent.IsCancelled(ctx) {
		err = errors.Join(err, c.untilCancelled(ctx, tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()}))
	}
	return event, err
}

const (
	// cancelTimeout is how long a cancelled agent tries to cancel a call that it made: the bus may be away.
	cancelTimeout = 10 * time.Minute
	// stopTimeout is the same after its worker began to stop. The next worker goes on.
	stopTimeout = 5 * time.Second
)

// untilCancelled is cancel, repeated until it succeeds.
func (c busCaller) untilCancelled(ctx context.Context, k tools.CallKey) error {
	cancelling, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	go func() {
		select {
		case <-cancelling.Done():
		case <-tools.Stopping(ctx):
			_ = tools.Sleep(cancelling, stopTimeout)
			stop()
		}
	}()
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, stopTimeout) {
		err := c.cancel(cancelling, k)
		if err == nil || bus.IsClosed(err) || tools.Sleep(cancelling, pause) != nil {
			return err
		}
	}
}

// cancel cancels a call that a cancelled agent made, unless it is in the background. The worker that runs the call stops it
// and publishes the result; no worker runs a parked call, and no call is parked after the record. One that was
// parked, and that no worker continues yet, may have made calls that are parked still.
func (c busCaller) cancel(ctx context.Context, k tools.CallKey) error {
	if stored, err := task.ReadResults(ctx, c.bus, k.Session, k.ID); err != nil || len(stored) > 0 && !task.Ended(stored) {
		return err
	}
	if err := task.RecordCancellation(ctx, c.bus, k.Session, k.ID); err != nil {
		return err
	}
	if r, err := task.ReadRecord(ctx, c.bus, k); err != nil || r.Parked == nil && len(r.Made) == 0 {
		return err
	}
	return task.CancelOpen(ctx, c.bus, k, "its agent")
}

// Pauses between two checks whether a call is parked.
const (
	firstParkedCheck = 500 * time.Millisecond
	maxParkedCheck   = 5 * time.Second
)

// callUntilParked returns a *tools.Pause when the call is parked, so that the agent that
// made the call does not wait on a worker either.
func (c busCaller) callUntilParked(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		key := tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()}
		for pause := firstParkedCheck; ; pause = min(2*pause, maxParkedCheck) {
			select {
			case <-waiting.Done():
				return
			case <-tools.Stopping(ctx):
				// The call goes on, and the worker that continues the agent gets its result.
				cancel(&tools.Pause{
					Until: time.Now().UTC(), WaitsFor: []tools.CallKey{key}, Made: true, Reason: "waiting for another worker, because the last one stopped",
				})
				return
			case <-time.After(pause):
			}
			// An error is temporary, or the caller notices it too.
			if p, ok, err := task.ReadParked(waiting, c.bus, key); ok && err == nil {
				cancel(&tools.Pause{Until: p.Until, WaitsFor: []tools.CallKey{key}, Made: true, Reason: fmt.Sprintf("%s (%s)", p.Reason, call.Tool), Err: detailOf(p)})
				return
			}
		}
	}()
	event, err := c.call(waiting, call)
	cancel(nil)
	<-done
	if pause, ok := tools.PauseOf(context.Cause(waiting)); ok && err != nil && ctx.Err() == nil {
		return event, pause
	}
	return event, err
}

// detailOf returns the last error of a parked call.
func detailOf(p task.Parked) error {
	if p.Detail == "" {
		return nil
	}
	return errors.New(p.Detail)
}

// parked returns until when the run of a call is parked.
func (c busCaller) parked(ctx context.Context, call tools.CallKey) (time.Time, bool, error) {
	p, ok, err := task.ReadParked(ctx, c.bus, call)
	return p.Until, ok, err
}

func (c busCaller) call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	event, err := rpc.Submit(ctx, c.bus, queueOf(call), call)
	if dead, ok := errors.AsType[*rpc.DeadLetterError](err); ok {
		return event, tools.Errorf(dead.Code, "%v", dead)
	}
	return event, err
}

// endOf returns why a run ended that has its result although its conversation has no end
// entry. A cancelled run may be about to write that entry.
func (c busCaller) endOf(ctx context.Context, call tools.CallKey) (agent.Reason, error) {
	if !tools.IsToken(call.Session) || !tools.IsToken(call.ID) { // another program wrote the entry, and no call can have this key
		return agent.Abandoned, nil
	}
	stored, err := task.ReadResults(ctx, c.bus, call.Session, call.ID)
	switch {
	case err != nil || len(stored) == 0:
		return "", err
	case stored[0].Outcome == tools.Cancelled:
		return agent.Cancelled, nil
	}
	return agent.Abandoned, nil
}

// alive reports whether a worker executes a run, or will: its call may be parked, or wait in
// a queue because all slots are taken or because the lease of a dead worker has not ended.
func (c busCaller) alive(ctx context.Context, call tools.CallKey) (bool, error) {
	t, err := task.Get(ctx, c.bus, call.Session, call.ID)
	switch {
	case tools.CodeOf(err) == tools.CodeNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	return t.EndedAt.IsZero(), nil
}
