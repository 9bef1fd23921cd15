package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// job is one call on its way through this worker.
type job struct {
	delivery *bus.Delivery
	call     tools.Call
	def      tools.Definition // of the tool; zero if it is not known here
	digest   string           // of what the call asks for
	key      key
	queue    string
	started  time.Time
	invalid  error           // why the call cannot be run
	raw      *tools.RawEvent // the result that came instead of a call

	// resultOut is set once the result stands on the bus: what follows is the
	// completion.
	resultOut bool
	// beaten is set if a result stands that is final, and not this job's.
	beaten bool
	// completion takes the later answer of an async tool.
	completion chan *tools.Result
	// hand is set while this worker runs the job.
	hand *inHand
}

// key names a call in subjects and records: two tokens.
type key struct{ session, id string }

// decode makes a job of a delivery. An error means that there is nobody to tell.
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
		j.invalid = tools.Errorf(tools.CodeInvalidCall, "the call names the tool %q, its subject %q", tools.Excerpt(j.call.Tool, 80), tool)
	}
	j.call.Tool = tool
	// The key is that of the ids as they came: there the client looks.
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
		j.raw.Call = j.call // with what only the subject and the message tell
	}
	return j, nil
}

// completedElsewhere reports whether an async answer is all that is expected of
// this worker.
func (j *job) completedElsewhere(r *tools.Registry) bool {
	return j.def.Name != "" && !r.CallsBack(j.def.Name)
}

// once reports whether the job must never be run a second time.
func (j *job) once() bool { return j.raw == nil && j.def.Effect == tools.Once }
