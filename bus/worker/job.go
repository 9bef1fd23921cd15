package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// job is one delivery of a call while this worker handles it.
type job struct {
	delivery *bus.Delivery
	call     tools.Call
	def      tools.Definition // of the tool; zero if this worker lacks the tool
	digest   string           // of the tool and the arguments; empty for a raw result
	key      key
	queue    string
	started  time.Time
	invalid  error           // why the call cannot be run
	raw      *tools.RawEvent // a raw result; nil for a call

	// resultPublished is set if the result is stored; the next event is the
	// completion.
	resultPublished bool
	// lostRace is set if another delivery published a final result first.
	lostRace bool
	// completion receives the later result of an async tool.
	completion chan *tools.Result
	// exec is set while this worker runs the job.
	exec *execution
	// start is the record of this attempt; it may be empty.
	start string
}

// key identifies a call in subjects and records by two tokens.
type key struct{ session, id string }

// decode makes a job of a delivery. After an error there is no call to answer;
// an invalid call that can be answered has job.invalid set.
func (w *Worker) decode(d *bus.Delivery) (*job, error) {
	tokens := w.bus.Split(d.Subject)
	if len(tokens) != 3 {
		return nil, fmt.Errorf("subject %q: want %s", d.Subject, w.bus.Call("QUEUE", "TOOL"))
	}
	kind, tool := tokens[0], tokens[2]
	j := &job{delivery: d, queue: tokens[1], started: time.Now().UTC()}
	var err error
	if kind == "raw" {
		j.raw = new(tools.RawEvent)
		*j.raw, err = tools.DecodeRaw(d.Body)
		j.call = j.raw.Call
	} else {
		j.call, err = tools.DecodeCall(d.Body)
	}
	fault, answerable := errors.AsType[*tools.Error](err)
	if err != nil && !answerable {
		return nil, err
	}
	if j.call.ID == "" {
		j.call.ID = d.ID()
	}
	if j.call.Session == "" {
		j.call.Session = tools.DefaultSession
	}
	if j.call.Tool != "" && j.call.Tool != tool {
		j.invalid = tools.Errorf(tools.CodeInvalidCall, "the call names the tool %q, but its subject names %q", tools.Excerpt(j.call.Tool, 80), tool)
	}
	j.call.Tool = tool
	// The client waits on the key of the ids that it sent, even if they are invalid.
	j.key = key{j.call.SessionToken(), j.call.IDToken()}
	if err := j.call.Validate(); err != nil {
		j.invalid = err
		for _, field := range []*string{&j.call.ID, &j.call.Session, &j.call.Channel, &j.call.ChatID} {
			*field = tools.Excerpt(*field, 256)
		}
	}
	if answerable {
		j.invalid = fault
	}
	j.def, _ = w.registry.Definition(tool)
	if j.raw == nil {
		j.digest = j.call.Digest()
	} else {
		j.raw.Call = j.call // with the values from the subject and the message
	}
	return j, nil
}

// completesElsewhere reports whether this worker publishes no completion for the
// call: its tool may return an async result but has no callback.
func (j *job) completesElsewhere(r *tools.Registry) bool {
	return j.def.Name != "" && !r.CallsBack(j.def.Name)
}

// once reports whether the call is once-only.
func (j *job) once() bool { return j.raw == nil && j.def.Effect == tools.Once }
