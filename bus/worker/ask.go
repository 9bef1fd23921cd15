package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus/task"
)

// askInterval is the first pause between two questions about the same call; they
// grow, because every worker hears them.
const askInterval = 250 * time.Millisecond

// waitWhileRunningHere waits until a call that this worker has in hand has
// ended, and reports whether there was one.
func (w *Worker) waitWhileRunningHere(ctx context.Context, j *job) (busy bool, err error) {
	here := w.running.find(j.key)
	if here == nil {
		return false, nil
	}
	j.delivery.Detach()
	select {
	case <-here.ended:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// pause waits. It costs no slot, and the lease is kept.
func (w *Worker) pause(ctx context.Context, j *job, d time.Duration) error {
	j.delivery.Detach()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answerRunning answers requests for the calls that this worker runs.
func (w *Worker) answerRunning() (stop func(), err error) {
	return task.AnswerRunning(w.bus, w.log, func(session, call string) (calls []task.RunningCall) {
		found := w.running.ofSession(session)
		for k, h := range found {
			if call != "" && k.id != call {
				continue
			}
			h.mu.Lock()
			calls = append(calls, task.RunningCall{ID: k.id, Tool: h.job.call.Tool, Worker: w.cfg.Name, StartedAt: h.job.started, Progress: h.progress})
			h.mu.Unlock()
		}
		return calls
	})
}
