package worker

import (
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

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
