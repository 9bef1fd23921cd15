package worker

import (
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// progressInterval is the least time between two progress events of a call.
const progressInterval = 100 * time.Millisecond

// Report publishes how far the call is, for those who watch now, and keeps it
// for those who ask.
func (h *inHand) Report(p tools.Progress) {
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
	b, call := h.worker.bus, h.job.call
	body, err := bus.Encode(tools.ProgressEvent{ID: call.ID, Session: call.Session, Tool: call.Tool, Progress: p, At: time.Now().UTC()})
	if err == nil {
		err = b.Conn().Publish(b.Progress(h.job.key.session, h.job.key.id), body)
	}
	if err != nil {
		h.worker.log.Debug().Err(err).Msg("cannot publish progress")
	}
}

// Detach gives the call's slot to the next one.
func (h *inHand) Detach() { h.job.delivery.Detach() }
