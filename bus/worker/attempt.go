package worker

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// attempt is one delivery of a call while this worker handles it.
type attempt struct {
	*task.Delivered

	// resultPublished is set if the result is stored; the next event is the
	// completion.
	resultPublished bool
	// lostRace is set if another delivery published a final result first.
	lostRace bool
	// completion receives the later result of an async tool.
	completion chan *tools.Result
	// exec is set while this worker runs the attempt.
	exec *execution
	// startCounted is set if the record of the call has this attempt.
	startCounted bool
	// approved is set if a person approved the call.
	approved bool
	// outcome and errorCode are of the last result that was published.
	outcome   tools.Outcome
	errorCode string
}

// decode makes an attempt of a delivery. After an error there is no call to answer.
func (w *Worker) decode(delivery *bus.Delivery) (*attempt, error) {
	d, err := task.Decode(w.bus.Subjects, delivery)
	if err != nil {
		return nil, err
	}
	d.Tool, _ = w.registry.Definition(d.Call.Tool)
	d.CallsBack = w.registry.CallsBack(d.Call.Tool)
	return &attempt{Delivered: d}, nil
}

// pauseOf returns the pause that the tool asks for with its result. A once-only tool gets none.
// A call that was cancelled or has no time left gets one only if it made the calls that it
// waits for: Park then cancels them.
func (a *attempt) pauseOf(toolCtx context.Context, res *tools.Result) (*tools.Pause, bool) {
	pause, ok := tools.PauseOf(res.Err)
	return pause, ok && res.IsError && !a.Once() && (toolCtx.Err() == nil || pause.Made)
}
