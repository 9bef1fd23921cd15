package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// defaultRunTime is how long the call of a tick may take if its schedule does
// not say.
const defaultRunTime = 24 * time.Hour

// keepLastRun is how long the record of a run is kept that no other follows:
// longer than its tick, which may be delivered again until it is gone.
const keepLastRun = 31 * 24 * time.Hour

// maxRunSeconds is a year; beyond it durations overflow sooner or later.
const maxRunSeconds = 365 * 24 * 3600

// handleTick turns a tick into a call. The call's id derives from the schedule
// and the slot, so that a tick that is delivered twice is one call. A tick
// whose predecessor still runs is skipped.
func (w *Worker) handleTick(ctx context.Context, d *bus.Delivery) error {
	tokens := w.bus.Split(d.Subject)
	body, err := tools.DecodeTick(d.Body)
	if err != nil {
		return bus.Reject(bus.CodeUndecodable, err)
	}
	kind, name, call := tokens[1], tokens[2], body.Call
	queue := body.Queue
	if queue == "" {
		queue = bus.DefaultQueue
	}
	if !tools.IsToken(queue) {
		return bus.Reject(bus.CodeUndecodable, fmt.Errorf("the queue %q is not of the form %s", tools.Excerpt(queue, 80), tools.TokenForm))
	}
	log := w.log.With().Str("kind", kind).Str("schedule", name).Logger()

	slot, ok := d.Slot()
	if !ok { // somebody's own tick: each is its own slot
		slot = d.Published.UTC()
	}
	call.ID = fmt.Sprintf("%s-%s-%s", kind, name, strings.Replace(slot.Format("20060102T150405.999999999Z"), ".", "", 1))
	if !ok {
		call.ID = fmt.Sprintf("%s-%d", call.ID, d.Sequence)
	}
	if call.Session == "" {
		call.Session = kind + "-" + name
	}
	if call.Action == "" {
		call.Action = kind
	}

	// A slot is run once, even if its tick is made again: as a server does with
	// its last ones after it was killed, and as it must when the clock is set
	// back by hours. The call's key would not tell, because servers forget the
	// keys of calls that are done.
	stored, err := w.readResults(ctx, key{tools.Token(call.Session), tools.Token(call.ID)})
	if len(stored) > 0 || err != nil {
		return err
	}
	record := bus.Message{Subject: w.bus.RunOf(kind, name)}
	if d.OnlyTick() { // nothing would ever replace its record
		record.Header = nats.Header{jetstream.MsgTTLHeader: {keepLastRun.String()}}
	}
	run, begun, err := w.beginRun(ctx, record, body, run{Call: call.ID, Session: call.Session, Slot: slot, Tick: d.Sequence})
	if err != nil {
		return err
	}
	if !begun {
		log.Warn().Time("slot", slot).Str("running", tools.Token(run.Call)).Msg("tick skipped; the call of an earlier one is not answered yet")
		return nil
	}
	call.Deadline = run.Deadline
	data, err := bus.Encode(call)
	if err != nil {
		return bus.Reject(bus.CodeUndecodable, err)
	}
	err = w.persist(ctx, bus.Message{Subject: w.bus.Call(queue, call.Tool), Body: data, Key: call.Session + "." + call.ID})
	if err != nil {
		return err
	}
	log.Info().Time("slot", slot).Str("call", tools.Token(call.ID)).Msg("tick became a call")
	return nil
}

// run is the record of the call that a schedule made last. It is written before
// the call is published, so that a crash between them publishes it at the next
// delivery of the tick.
type run struct {
	Call     string    `json:"call"`
	Session  string    `json:"session"`
	Slot     time.Time `json:"slot"`
	Deadline time.Time `json:"deadline"`
	// Tick is the tick's sequence in its stream: what is newer, whatever the
	// clock shows.
	Tick uint64 `json:"tick,omitempty"`
}

// beginRun writes the record of next, to where record says, and returns it. If it
// must not run now, begun is false, and the record is the one that stands in its
// way.
func (w *Worker) beginRun(ctx context.Context, record bus.Message, tick tools.Tick, next run) (_ run, begun bool, err error) {
	data, revision, err := w.bus.LastRevision(ctx, bus.Ticks, record.Subject)
	if err != nil {
		return run{}, false, err
	}
	var prior run
	if data != nil {
		if err := json.Unmarshal(data, &prior); err != nil {
			w.log.Warn().Err(err).Str("subject", record.Subject).Msg("unreadable record of a run; it is replaced")
		}
	}
	switch {
	case prior.Call == next.Call && prior.Session == next.Session:
		return prior, true, nil // the tick was delivered before
	case prior.Tick > next.Tick:
		return prior, false, nil
	case prior.Call != "" && !tick.Overlap:
		answered, err := w.answered(ctx, prior)
		if err != nil || !answered {
			return prior, false, err
		}
	}
	timeout := defaultRunTime
	if tick.TimeoutS > 0 {
		timeout = time.Duration(min(tick.TimeoutS, maxRunSeconds)) * time.Second
	}
	next.Deadline = time.Now().UTC().Add(timeout)
	if !tick.Deadline.IsZero() && tick.Deadline.Before(next.Deadline) {
		next.Deadline = tick.Deadline
	}
	if record.Body, err = bus.Encode(next); err != nil {
		return run{}, false, err
	}
	header := bus.ExpectRevision(revision)
	maps.Copy(header, record.Header)
	record.Header = header
	_, err = w.bus.Publish(ctx, record)
	if errors.Is(err, bus.ErrConflict) {
		err = bus.RetryAfter(time.Second, err)
	}
	return next, err == nil, err
}

// answered reports whether the call of a run has its last answer, or has none
// to be waited for.
func (w *Worker) answered(ctx context.Context, r run) (bool, error) {
	if time.Now().After(r.Deadline) {
		return true, nil
	}
	stored, err := w.readResults(ctx, key{tools.Token(r.Session), tools.Token(r.Call)})
	return task.Ended(stored), err
}
