package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// errCancelled is the cause of a tool's context that ended because somebody
// cancelled the call. Its code tells a tool that from a worker that stops.
var errCancelled = tools.Errorf(tools.CodeCancelled, "the call was cancelled")

// running is the set of calls that this worker has in hand, and of those that
// were cancelled, lately or before they came.
type running struct {
	mu        sync.Mutex
	calls     map[key]*inHand
	cancelled map[key]struct{}
}

// inHand is a call that this worker runs; to the tool it is the Caller.
type inHand struct {
	worker *Worker
	job    *job
	cancel context.CancelCauseFunc // ends the tool's context
	ended  chan struct{}

	mu       sync.Mutex
	progress tools.Progress
	reported time.Time
}

func newRunning() *running {
	return &running{calls: make(map[key]*inHand), cancelled: make(map[key]struct{})}
}

// begin enters a call, unless it is in hand already, and returns the context
// that its tool runs in.
func (r *running) begin(ctx context.Context, w *Worker, j *job) (toolCtx context.Context, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, busy := r.calls[j.key]; busy {
		return nil, false
	}
	hand := &inHand{worker: w, job: j, ended: make(chan struct{})}
	toolCtx, hand.cancel = context.WithCancelCause(tools.WithCaller(ctx, hand))
	if !j.call.Deadline.IsZero() {
		var release context.CancelFunc
		toolCtx, release = context.WithDeadline(toolCtx, j.call.Deadline)
		context.AfterFunc(toolCtx, release) // cancel ends it too
	}
	if _, done := r.cancelled[j.key]; done {
		hand.cancel(errCancelled)
	}
	j.hand, r.calls[j.key] = hand, hand
	return toolCtx, true
}

// end removes a call, if begin entered it.
func (r *running) end(j *job) {
	if j.hand == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, j.key)
	j.hand.cancel(nil)
	close(j.hand.ended)
	j.hand = nil
}

// find returns a call that is in hand, or nil.
func (r *running) find(k key) *inHand {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[k]
}

// ofSession returns what a session has running here.
func (r *running) ofSession(session string) map[key]*inHand {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[key]*inHand{}
	for k, h := range r.calls {
		if k.session == session {
			found[k] = h
		}
	}
	return found
}

// byQueue counts the calls that are in hand.
func (r *running) byQueue() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, h := range r.calls {
		n[h.job.queue]++
	}
	return n
}

// cancel ends the tool of a call that is here, and keeps one that comes later
// from starting.
func (r *running) cancel(session, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{session, id}
	r.cancelled[k] = struct{}{}
	if h := r.calls[k]; h != nil {
		h.cancel(errCancelled)
	}
}

func (r *running) forget(session, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cancelled, key{session, id})
}

// stop ends the tool of a call that is here.
func (r *running) stop(session, id string) {
	if h := r.find(key{session, id}); h != nil {
		h.cancel(errCancelled)
	}
}

// watchCancellations keeps the set of cancelled calls until ctx ends; ready is
// called once it is complete.
func (w *Worker) watchCancellations(ctx context.Context, ready func()) error {
	err := task.WatchCancellations(ctx, w.bus, task.Cancellations{
		Ready: sync.OnceFunc(ready), Cancelled: w.running.cancel, Expired: w.running.forget, Stop: w.running.stop,
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}
