package worker

import (
	"cmp"
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
	key      tools.CallKey    // the tokens that name the call in subjects and records
	queue    string
	started  time.Time
	invalid  error           // why the call cannot be run
	raw      *tools.RawEvent // a raw result; nil for a call

	// callsBack is set if the tool is an AsyncTool, which completes its calls here.
	// completesElsewhere is set for any other tool that this worker has: if it returns an
	// async result, another program publishes the completion.
	callsBack, completesElsewhere bool
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
	// resumed is the wait after which the call was published again, as far as its message
	// tells. Started is also set for a call that was not parked.
	resumed task.Parked
	// outcome and errorCode are of the last result that was published.
	outcome   tools.Outcome
	errorCode string
}

// decode makes an attempt of a delivery. After an error there is no call to answer;
// an invalid call that can be answered has attempt.invalid set.
func (w *Worker) decode(d *bus.Delivery) (*attempt, error) {
	subject, ok := w.bus.SplitCall(d.Subject)
	if !ok || !tools.IsToken(subject.Session) || !tools.IsToken(subject.ID) {
		return nil, fmt.Errorf("subject %.200q: want %s with tokens of the form %s", d.Subject,
			w.bus.Call("QUEUE", "TOOL", "SESSION", "ID"), tools.TokenForm)
	}
	a := &attempt{delivery: d, queue: subject.Queue, started: time.Now().UTC()}
	a.resumed = task.ResumedFrom(d, a.started)
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
		a.invalid = tools.Errorf(tools.CodeInvalidCall, "the call names the tool %.80q, but its subject names %q", a.call.Tool, subject.Tool)
	}
	a.call.Tool, a.call.Priority = subject.Tool, cmp.Or(d.Header(bus.PriorityHeader), a.call.Priority)
	a.key = tools.CallKey{Session: subject.Session, ID: subject.ID}
	if err := task.Identify(&a.call, subject); err != nil {
		a.invalid = err
	}
	if err := a.call.Validate(); err != nil {
		a.invalid = err
		if len(a.call.ID) > tools.MaxIDLen {
			a.call.ID = a.key.ID
		}
		if len(a.call.Session) > tools.MaxIDLen {
			a.call.Session = a.key.Session
		}
		a.call.Priority = ""
		for _, field := range []*string{&a.call.Channel, &a.call.ChatID} {
			*field = tools.Excerpt(*field, 256)
		}
	}
	if answerable {
		a.invalid = fault
	}
	a.def, _ = w.registry.Definition(subject.Tool)
	a.callsBack = w.registry.CallsBack(subject.Tool)
	a.completesElsewhere = a.def.Name != "" && !a.callsBack
	switch {
	case a.raw != nil:
		a.raw.Call = a.call // with the values from the subject and the message
	case a.resumed.ArgsIn != "": // readArgs makes the digest
	default:
		a.digest = a.call.Digest()
	}
	return a, nil
}

// once reports whether the call is once-only.
func (a *attempt) once() bool { return a.raw == nil && a.def.Effect == tools.Once }
