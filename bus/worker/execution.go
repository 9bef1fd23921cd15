package worker

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// errCancelled is the cause of the end of a tool's context if the call was
// cancelled. Its code tells a tool that the worker is not stopping.
var errCancelled = tools.Errorf(tools.CodeCancelled, "the call was cancelled")

// executions are the calls that this worker runs. It also holds the recorded
// cancellations, because a call may arrive after its cancellation.
type executions struct {
	bus      *bus.Bus
	worker   string        // its name
	stopping chan struct{} // closed when the worker stops
	log      zerolog.Logger

	mu        sync.Mutex
	calls     map[tools.CallKey]*execution
	cancelled map[tools.CallKey]struct{}
}

// execution is one call that this worker runs. Its tool reports progress to it.
type execution struct {
	of      *executions
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

func newExecutions(b *bus.Bus, worker string, log zerolog.Logger) *executions {
	return &executions{
		bus: b, worker: worker, stopping: make(chan struct{}), log: log,
		calls: make(map[tools.CallKey]*execution), cancelled: make(map[tools.CallKey]struct{}),
	}
}

// begin adds a call, unless this worker already runs it, and returns the context
// for its tool.
func (e *executions) begin(ctx context.Context, a *attempt) (toolCtx context.Context, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, running := e.calls[a.Key]; running {
		return nil, false
	}
	exec := &execution{of: e, attempt: a, ended: make(chan struct{})}
	if a.approved {
		ctx = tools.WithApproval(ctx)
	}
	toolCtx, exec.cancel = context.WithCancelCause(tools.WithReporter(ctx, exec))
	if !a.Call.Deadline.IsZero() {
		var release context.CancelFunc
		toolCtx, release = context.WithDeadline(toolCtx, a.Call.Deadline)
		context.AfterFunc(toolCtx, release) // exec.cancel ends it too
	}
	if _, ok := e.cancelled[a.Key]; ok {
		exec.cancel(errCancelled)
	}
	a.exec, e.calls[a.Key] = exec, exec
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
	delete(e.calls, a.Key)
	a.exec.cancel(nil)
	close(a.exec.ended)
	a.exec = nil
}

// find returns the execution of a call, or nil.
func (e *executions) find(k tools.CallKey) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[k]
}

// endOf returns a channel that is closed when the run of a call ends; nil if there is none.
func (e *executions) endOf(k tools.CallKey) <-chan struct{} {
	if exec := e.find(k); exec != nil {
		return exec.ended
	}
	return nil
}

// countByQueue counts the running calls of each queue.
func (e *executions) countByQueue() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := map[string]int{}
	for _, exec := range e.calls {
		n[exec.attempt.Queue]++
	}
	return n
}

// cancel stops the tool of a call, and keeps a call that arrives later from
// starting.
func (e *executions) cancel(k tools.CallKey) {
	e.mu.Lock()
	e.cancelled[k] = struct{}{}
	e.mu.Unlock()
	e.stop(k)
}

// forgetCancellation lets a call start again.
func (e *executions) forgetCancellation(k tools.CallKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.cancelled, k)
}

// stop stops the tool of a call.
func (e *executions) stop(k tools.CallKey) {
	if exec := e.find(k); exec != nil {
		exec.cancel(errCancelled)
	}
}

// report returns the running calls of a session, or only the given call if it is
// not empty. Calls of all sessions have their session.
func (e *executions) report(session, call string) (calls []task.RunningCall) {
	if call != "" {
		if exec := e.find(tools.CallKey{Session: session, ID: call}); exec != nil {
			calls = append(calls, exec.report())
		}
		return calls
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, exec := range e.calls {
		if k.Session == session {
			calls = append(calls, exec.report())
		} else if session == task.AllSessions {
			running := exec.report()
			running.Session = k.Session
			calls = append(calls, running)
		}
	}
	return calls
}

func (e *execution) report() task.RunningCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	return task.RunningCall{ID: e.attempt.Key.ID, Tool: e.attempt.Call.Tool, Args: tools.ArgsExcerpt(e.attempt.Call.Args), Worker: e.of.worker, StartedAt: e.attempt.Started, Progress: e.progress}
}

// Stopping returns a channel that is closed when the worker stops.
func (e *execution) Stopping() <-chan struct{} { return e.of.stopping }

const (
	// progressInterval is the shortest time between two progress events of a call.
	progressInterval = 100 * time.Millisecond
	// maxPendingText (bytes) and maxPendingActivity bound the activity of one event.
	// What a call reports beyond them within one interval is dropped; offsets show it.
	maxPendingText     = 32 << 10
	maxPendingActivity = 200
)

// Report keeps the progress of the call for FindRunning and ListRunning, and publishes
// it, at most once per progressInterval: immediately, or at the end of the interval
// together with what is reported until then.
func (e *execution) Report(p tools.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, activity := range p.Activity {
		e.addActivity(activity)
	}
	p.Activity = nil
	e.progress, e.unreported = p, true
	if e.flush != nil {
		return // it will publish this too
	}
	if wait := progressInterval - time.Since(e.reported); wait > 0 {
		e.flush = time.AfterFunc(wait, e.flushProgress)
		return
	}
	e.publishProgress()
}

// addActivity joins pieces of text, because models send them word by word.
func (e *execution) addActivity(a tools.Activity) {
	if e.pendingText += len(a.Text); a.Text != "" && e.pendingText > maxPendingText {
		return
	}
	if a.Type == tools.ActivityText && len(e.activity) > 0 {
		last := &e.activity[len(e.activity)-1]
		if last.Type == a.Type && last.Turn == a.Turn && last.Offset+utf8.RuneCountInString(last.Text) == a.Offset {
			last.Text += a.Text
			return
		}
	}
	if len(e.activity) < maxPendingActivity {
		e.activity = append(e.activity, a)
	}
}

// flushProgress publishes what was reported since the last event.
func (e *execution) flushProgress() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flush != nil {
		e.flush.Stop()
		e.flush = nil
	}
	if e.unreported {
		e.publishProgress()
	}
}

func (e *execution) publishProgress() {
	p := e.progress
	p.Activity, e.activity, e.pendingText = e.activity, nil, 0
	e.unreported, e.reported = false, time.Now()
	b, call := e.of.bus, e.attempt.Call
	body, err := bus.Encode(tools.ProgressEvent{ID: call.ID, Session: call.Session, Tool: call.Tool, Progress: p, At: time.Now().UTC()})
	if err == nil {
		err = b.Conn().Publish(b.Progress(e.attempt.Key.Session, e.attempt.Key.ID), body)
	}
	if err != nil {
		e.of.log.Debug().Err(err).Msg("cannot publish progress")
	}
}

// Detach frees the slot of the call for the next one.
func (e *execution) Detach() { e.attempt.Detach() }
