package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// During a rolling update, or if workers of a queue offer different tools, a worker may get
// a call of a tool that only another one has.

const (
	// offerTimeout is how long another worker may take to say that it has a tool.
	offerTimeout = 500 * time.Millisecond
	// maxHandOn is the longest pause before the call is delivered again.
	maxHandOn = time.Second
)

// lacksTool reports whether this worker cannot run a call that another one may run.
func (w *Worker) lacksTool(a *attempt) bool {
	return a.raw == nil && a.invalid == nil && a.def.Name == ""
}

// handOnUnknown returns the verdict that hands a call to another worker of the queue that
// has the tool, or nil if there is none.
func (w *Worker) handOnUnknown(ctx context.Context, a *attempt) error {
	if offered, err := w.isOffered(ctx, a); !offered || err != nil {
		return err
	}
	w.log.Debug().Str("call", a.key.id).Str("session", a.key.session).Str("tool", a.call.Tool).Msg("handing the call to a worker that has the tool")
	return handOn(min(50*time.Millisecond<<min(a.delivery.Attempt, 10), maxHandOn))
}

// isOffered reports whether another worker of the queue has the tool of a call.
func (w *Worker) isOffered(ctx context.Context, a *attempt) (bool, error) {
	query, err := bus.Encode(tools.OfferQuery{Queue: a.queue, Tool: a.call.Tool, Brief: true})
	if err != nil {
		return false, err
	}
	_, ok, err := task.RequestAny(ctx, w.bus, w.bus.RPC("offer"), query, offerTimeout)
	return ok, err
}
