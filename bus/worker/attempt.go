package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// attempt is one delivery of a call while this worker handles it.
type attempt struct {
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
	// exec is set while this worker runs the attempt.
	exec *execution
	// start is the record of this attempt; it may be empty.
	start string
	// approved is set if a person approved the call.
	approved bool
	// parkedRevision and parkedState are of the record from which the call was resumed.
	parkedRevision uint64
	parkedState    task.State
	// held is the record of a call that waited for its approval while its message stayed in
	// the stream.
	held *task.Parked
	// outcome and errorCode are of the last result that was published.
	outcome   tools.Outcome
	errorCode string
}

// key identifies a call in subjects and records by two tokens.
type key struct{ session, id string }

// decode makes an attempt of a delivery. After an error there is no call to answer;
// an invalid call that can be answered has attempt.invalid set.
func (w *Worker) decode(d *bus.Delivery) (*attempt, error) {
	subject, ok := w.bus.SplitCall(d.Subject)
	if !ok || !tools.IsToken(subject.Session) || !tools.IsToken(subject.ID) {
		return nil, fmt.Errorf("subject %q: want %s with tokens of the form %s", tools.Excerpt(d.Subject, 200),
			w.bus.Call("QUEUE", "TOOL", "SESSION", "ID"), tools.TokenForm)
	}
	a := &attempt{delivery: d, queue: subject.Queue, started: time.Now().UTC()}
	a.parkedRevision, a.parkedState = task.ParkedRevision(d)
	var err error
	if subject.Raw {
		a.raw = new(tools.RawEvent)
		*a.raw, err = tools.DecodeRaw(d.Body)
		a.call = a.raw.Call
	} else {
		a.call, err = tools.DecodeCall(d.Body)
	}
	fault, answerable := errors.AsType[*tools.Error](err)
	if err != nil && !answerable {
		return nil, err
	}
	if a.call.Tool != "" && a.call.Tool != subject.Tool {
		a.invalid = tools.Errorf(tools.CodeInvalidCall, "the call names the tool %q, but its subject names %q", tools.Excerpt(a.call.Tool, 80), subject.Tool)
	}
	a.call.Tool = subject.Tool
	a.key = key{subject.Session, subject.ID}
	if err := task.Identify(&a.call, subject); err != nil {
		a.invalid = err
	}
	if err := a.call.Validate(); err != nil {
		a.invalid = err
		if len(a.call.ID) > tools.MaxIDLen {
			a.call.ID = a.key.id
		}
		if len(a.call.Session) > tools.MaxIDLen {
			a.call.Session = a.key.session
		}
		for _, field := range []*string{&a.call.Channel, &a.call.ChatID} {
			*field = tools.Excerpt(*field, 256)
		}
	}
	if answerable {
		a.invalid = fault
	}
	a.def, _ = w.registry.Definition(subject.Tool)
	if a.raw == nil {
		a.digest = a.call.Digest()
	} else {
		a.raw.Call = a.call // with the values from the subject and the message
	}
	return a, nil
}

// completesElsewhere reports whether this worker publishes no completion for the
// call: its tool may return an async result but has no callback.
func (a *attempt) completesElsewhere(r *tools.Registry) bool {
	return a.def.Name != "" && !r.CallsBack(a.def.Name)
}

// once reports whether the call is once-only.
func (a *attempt) once() bool { return a.raw == nil && a.def.Effect == tools.Once }
