package worker

import (
	"context"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// errCancelled is the cause of the end of a tool's context if the call was
// cancelled. Its code tells a tool that the worker is not stopping.
var errCancelled = tools.Errorf(tools.CodeCancelled, "the call was cancelled")

// executions are the calls that this worker runs. It also holds the recorded
// cancellations, because a call may arrive after its cancellation.
type executions struct {
	mu        sync.Mutex
	calls     map[key]*execution
	cancelled map[key]struct{}
}

// execution is one call that this worker runs. Its tool reports progress to it.
type execution struct {
	worker  *Worker
	attempt *attempt
	cancel  context.CancelCauseFunc // ends the tool's context
	ended   chan struct{}

	mu       sync.Mutex
	progress tools.Progress // the last report, without its activity
	// activity is not published yet; nor is progress, if unreported is true.
	activity    []tools.Activity
	pendingText int // bytes of text that were reported since the last event
	unreported  bool
	reported    time.Time
	flush       *time.Timer // will publish them; nil if none is set
}

func newExecutions() *executions {
	return &executions{calls: make(map[key]*execution), cancelled: make(map[key]struct{})}
}

// begin adds a call, unless this worker already runs it, and returns the context
// for its tool.
func (e *executions) begin(ctx context.Context, w *Worker, a *attempt) (toolCtx context.Context, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, running := e.calls[a.key]; running {
		return nil, false
	}
	exec := &execution{worker: w, attempt: a, ended: make(chan struct{})}
	if a.approved {
		ctx = tools.WithApproval(ctx)
	}
	toolCtx, exec.cancel = context.WithCancelCause(tools.WithReporter(ctx, exec))
	if !a.call.Deadline.IsZero() {
		var release context.CancelFunc
		toolCtx, release = context.WithDeadline(toolCtx, a.call.Deadline)
		context.AfterFunc(toolCtx, release) // exec.cancel ends it too
	}
	if _, ok := e.cancelled[a.key]; ok {
		exec.cancel(errCancelled)
	}
	a.exec, e.calls[a.key] = exec, exec
	return toolCtx, true
}

// end removes a call if begin added it.
func (e *executions) end(a *attempt) {
	if a.exec == nil {
		return
	}
	a.exec.flushProgress()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.calls, a.key)
	a.exec.cancel(nil)
	close(a.exec.ended)
	a.exec = nil
}

// find returns the execution of a call, or nil.
func (e *executions) find(k key) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[k]
}

// countByQueue counts the running calls of each queue.
func (e *executions) countByQueue() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := map[string]int{}
	for _, exec := range e.calls {
		n[exec.attempt.queue]++
	}
	return n
}

// cancel stops the tool of a call, and keeps a call that arrives later from
// starting.
func (e *executions) cancel(session, id string) {
	e.mu.Lock()
	e.cancelled[key{session, id}] = struct{}{}
	e.mu.Unlock()
	e.stop(session, id)
}

// forgetCancellation lets a call start again.
func (e *executions) forgetCancellation(session, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.cancelled, key{session, id})
}

// stop stops the tool of a call.
func (e *executions) stop(session, id string) {
	if exec := e.find(key{session, id}); exec != nil {
		exec.cancel(errCancelled)
	}
}

// report returns the running calls of a session, or only the given call if it is
// not empty. Calls of all sessions have their session.
func (e *executions) report(session, call string) (calls []task.RunningCall) {
	if call != "" {
		if exec := e.find(key{session, call}); exec != nil {
			calls = append(calls, exec.report())
		}
		return calls
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, exec := range e.calls {
		if k.session == session {
			calls = append(calls, exec.report())
		} else if task.IsAllSessions(session) {
			running := exec.report()
			running.Session = k.session
			calls = append(calls, running)
		}
	}
	return calls
}

func (e *execution) report() task.RunningCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	return task.RunningCall{ID: e.attempt.key.id, Tool: e.attempt.call.Tool, Worker: e.worker.cfg.Name, StartedAt: e.attempt.started, Progress: e.progress}
}

// Stopping returns a channel that is closed when the worker stops.
func (e *execution) Stopping() <-chan struct{} { return e.worker.stopping }
