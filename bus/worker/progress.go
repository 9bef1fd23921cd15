package worker

import (
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// progressInterval is the least time between two progress events of a call.
const progressInterval = 100 * time.Millisecond

// reportProgress publishes how far a call is, for those who watch now, and
// keeps it for those who ask.
func (w *Worker) reportProgress(j *job, h *inHand, p tools.Progress) {
	h.mu.Lock()
	h.progress = p
	soon := time.Since(h.reported) < progressInterval
	if !soon {
		h.reported = time.Now()
	}
	h.mu.Unlock()
	if soon {
		return
	}
	body, err := bus.Encode(tools.ProgressEvent{ID: j.call.ID, Session: j.call.Session, Tool: j.call.Tool, Progress: p, At: time.Now().UTC()})
	if err == nil {
		err = w.bus.Conn().Publish(w.bus.Progress(j.key.session, j.key.id), body)
	}
	if err != nil {
		w.log.Debug().Err(err).Msg("cannot publish progress")
	}
}
