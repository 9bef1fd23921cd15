package task

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools"
)

// Delivered is a call as a worker got it.
type Delivered struct {
	*consume.Delivery
	Call    tools.Call
	Key     tools.CallKey // the tokens that name the call in subjects and records
	Queue   string
	Digest  string // of the tool and the arguments; empty for a raw result
	Started time.Time
	Invalid error           // why the call cannot be run
	Raw     *tools.RawEvent // a raw result; nil for a call

	// Tool is the definition of the call's tool; zero if the worker lacks the tool. CallsBack is set
	// if it is an AsyncTool, which completes its calls in the worker.
	Tool      tools.Definition
	CallsBack bool

	// Resumed is the wait after which the call was published again, as far as its message
	// tells. Started is also set for a call that was not parked.
	Resumed Parked
}

// Decode decodes and checks a delivery. After an error there is no call to answer; an invalid
// call that can be answered has Invalid set. The caller sets what it knows of the tool.
func Decode(s bus.Subjects, delivery *consume.Delivery) (*Delivered, error) {
	subject, ok := s.SplitCall(delivery.Subject)
	if !ok || !tools.IsToken(subject.Session) || !tools.IsToken(subject.ID) {
		return nil, fmt.Errorf("subject %.200q: want %s with tokens of the form %s", delivery.Subject,
			s.Call("QUEUE", "TOOL", "SESSION", "ID"), tools.TokenForm)
	}
	d := &Delivered{
		Delivery: delivery, Queue: subject.Queue, Started: time.Now().UTC(), Key: tools.CallKey{Session: subject.Session, ID: subject.ID},
	}
	d.Resumed = resumedFrom(delivery, d.Started)
	var err error
	if subject.Raw {
		d.Raw = new(tools.RawEvent)
		*d.Raw, err = tools.DecodeRaw(delivery.Body)
		d.Call = d.Raw.Call
	} else {
		d.Call, err = tools.DecodeCall(delivery.Body)
	}
	fault, answerable := errors.AsType[*tools.Error](err)
	if err != nil && !answerable {
		return nil, err
	}
	d.identify(subject)
	if answerable {
		d.Invalid = fault
	}
	switch {
	case d.Raw != nil:
		d.Raw.Call = d.Call // with the values from the subject and the message
		d.takeHeld()
	case d.Resumed.ArgsIn != "": // the worker makes the digest when it has the arguments
	default:
		d.Digest = d.Call.Digest()
	}
	return d, nil
}

// identify completes the call with what its subject and its header say, and checks it.
func (d *Delivered) identify(subject bus.CallSubject) {
	call := &d.Call
	if call.Tool != "" && call.Tool != subject.Tool {
		d.Invalid = tools.Errorf(tools.CodeInvalidCall, "the call names the tool %.80q, but its subject names %q", call.Tool, subject.Tool)
	}
	call.Tool, call.Priority = subject.Tool, cmp.Or(d.Header(bus.PriorityHeader), call.Priority)
	if err := Identify(call, subject); err != nil {
		d.Invalid = err
	}
	err := call.Validate()
	if err == nil {
		return
	}
	d.Invalid = err
	if len(call.ID) > tools.MaxIDLen {
		call.ID = d.Key.ID
	}
	if len(call.Session) > tools.MaxIDLen {
		call.Session = d.Key.Session
	}
	call.Priority = ""
	for _, field := range []*string{&call.Channel, &call.ChatID} {
		*field = tools.Excerpt(*field, 256)
	}
}

// Identify completes a call that arrived on a subject. The session and the id of the
// subject apply, because the server's permissions protect them. The body may omit both, or
// have the ids whose tokens are in the subject. If it names another call, Identify returns
// an error, and the call has the tokens of the subject.
func Identify(call *tools.Call, subject bus.CallSubject) (err error) {
	for _, id := range []struct {
		inBody       *string
		token, field string
	}{{&call.Session, subject.Session, "session"}, {&call.ID, subject.ID, "id"}} {
		switch {
		case *id.inBody != "" && tools.Token(*id.inBody) == id.token:
			continue
		case *id.inBody != "":
			err = tools.Errorf(tools.CodeInvalidCall, "the body has the %[1]s %.80[2]q, but the subject has %.80[3]q; the subject decides, "+
				"so send the same %[1]s or omit it",
				id.field, *id.inBody, id.token)
		case tools.Token(id.token) != id.token:
			err = tools.Errorf(tools.CodeInvalidCall, "the %[1]s in the subject, %.80[2]q, is the hash of another %[1]s; the body must "+
				"contain that %[1]s", id.field, id.token)
		}
		*id.inBody = id.token
	}
	return err
}

// resumedFrom returns what the message of a delivered call says of the wait after which it was
// published; it is zero if the call was not parked. Started is when its tool began, or now.
func resumedFrom(d *consume.Delivery, now time.Time) (p Parked) {
	p.Started = now
	if !d.Republished {
		return p
	}
	if at, err := time.Parse(time.RFC3339Nano, d.Header(startedHeader)); err == nil && at.Before(now) {
		p.Started = at
	}
	p.ArgsIn = d.Header(bus.ArgsHeader)
	if number, err := strconv.ParseUint(d.Header(parkedHeader), 10, 64); err == nil {
		p.Number, p.State = number, State(d.Header(parkedStateHeader))
	}
	return p
}

// Once reports whether the call is once-only.
func (d *Delivered) Once() bool { return d.Raw == nil && d.Tool.Effect == tools.Once }

// CompletesElsewhere reports whether another program publishes the completion if the tool
// returns an async result: the worker has the tool, and it does not complete its calls here.
func (d *Delivered) CompletesElsewhere() bool { return d.Tool.Name != "" && !d.CallsBack }

// Check rejects the call if a stored event with this digest belongs to another call with the
// same id, whose result this call must not get.
func (d *Delivered) Check(digest string) error {
	if err := CheckDigest(d.Call, d.Digest, digest); err != nil {
		return consume.Reject(tools.CodeMismatch, err)
	}
	return nil
}

// CheckDigest returns an error if a stored event belongs to another call with the
// same id. digest is that of call, stored that of the event; either may be empty.
func CheckDigest(call tools.Call, digest, stored string) error {
	if digest == "" || stored == "" || digest == stored {
		return nil
	}
	return tools.Errorf(tools.CodeMismatch, "the id %.80q in session %.80q belongs to an earlier call with another tool or other arguments; choose a new id",
		call.ID, call.Session)
}
