package worker

import (
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// progressInterval is the shortest time between two progress events of a call.
const progressInterval = 100 * time.Millisecond

// Report publishes the progress of the call, at most once per progressInterval,
// and keeps it for FindRunning and ListRunning.
func (e *execution) Report(p tools.Progress) {
	e.mu.Lock()
	e.progress = p
	tooSoon := time.Since(e.reported) < progressInterval
	if !tooSoon {
		e.reported = time.Now()
	}
	e.mu.Unlock()
	if tooSoon {
		return
	}
	b, call := e.worker.bus, e.attempt.call
	body, err := bus.Encode(tools.ProgressEvent{ID: call.ID, Session: call.Session, Tool: call.Tool, Progress: p, At: time.Now().UTC()})
	if err == nil {
		err = b.Conn().Publish(b.Progress(e.attempt.key.session, e.attempt.key.id), body)
	}
	if err != nil {
		e.worker.log.Debug().Err(err).Msg("cannot publish progress")
	}
}

// Detach frees the slot of the call for the next one.
func (e *execution) Detach() { e.attempt.delivery.Detach() }
