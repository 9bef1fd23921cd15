package worker

import (
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
