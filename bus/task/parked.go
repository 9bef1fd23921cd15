package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Parked is a call that waits without a worker. Its record replaces its message in the calls
// stream, which is acknowledged. When the wait is over, a worker publishes the call again;
// see Follower.
type Parked struct {
	Call  tools.Call `json:"call"`
	Queue string     `json:"queue"`
	// Digest identifies the tool and the arguments of the call. Park sets it if it is empty.
	Digest string `json:"call_digest"`
	// ArgsIn is the artifact that has the arguments, if they are too large for the record.
	// Call then has only their start.
	ArgsIn string `json:"args_in,omitempty"`
	// Shown are the arguments as a person sees them in the question, if these are others: the
	// tool gets the contents of artifacts, which the call only names.
	Shown json.RawMessage `json:"shown,omitempty"`
	// State is Waiting, or InputRequired if a person must answer.
	State State `json:"state"`
	// Reason says what the call waits for, such as "waiting for the model"; Detail is the
	// text of the last error.
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	// Since is when the call was parked, Until when it runs again. For InputRequired, Until
	// is the deadline of the answer. Stored is Since by the clock of the server.
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Stored time.Time `json:"stored,omitzero"`
	// WaitsFor are other parked calls: this wait ends with the first of theirs.
	WaitsFor []tools.CallKey `json:"waits_for_any,omitempty"`
	// Made is set if this call made those calls, so that they are cancelled with it.
	Made bool `json:"made,omitempty"`
	// Started is when the tool of the call began, if it has begun.
	Started time.Time `json:"started,omitzero"`
	// Order is that of the delivery that was parked.
	Order uint64 `json:"order,omitempty"`
	// Worker parked the call.
	Worker      string `json:"worker"`
	Traceparent string `json:"traceparent,omitempty"`

	// Number counts how often the call was parked, with this time.
	Number uint64 `json:"-"`
}

// DueAt returns when the wait ends, by the clock of the server. The clock of the worker that
// parked the call may differ from it.
func (p Parked) DueAt() time.Time { return p.dueAfter(p.Until.Sub(p.Since)) }

// dueAfter returns when a wait of a length ends, as DueAt does.
func (p Parked) dueAfter(wait time.Duration) time.Time {
	if p.Stored.IsZero() {
		return p.Since.Add(wait)
	}
	return p.Stored.Add(wait)
}

// Key names the parked call.
func (p Parked) Key() tools.CallKey {
	return tools.CallKey{Session: p.Call.SessionToken(), ID: p.Call.IDToken()}
}

// Text says what the call waits for, in one line.
func (p Parked) Text() string {
	text := fmt.Sprintf("%s until %s", p.Reason, p.Until.UTC().Format(time.RFC3339))
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	return text
}

// Headers of a call that was parked, beside bus.ArgsHeader: the number and the state of its
// wait, and when its tool began. Any client can set them, so a worker trusts none of them with
// the arguments that a person approved: the digest of the call protects these.
const (
	parkedHeader      = "Stevedore-Parked"
	parkedStateHeader = "Stevedore-Parked-State"
	startedHeader     = "Stevedore-Started"
)

// made returns the calls that are cancelled with this one.
func (p Parked) made() []tools.CallKey {
	if !p.Made {
		return nil
	}
	return p.WaitsFor
}

// maxDetail is how much of an error the record of a parked call has, in bytes.
const maxDetail = 1000

// Park stores that a call is parked and returns its number. bus.ErrTooLarge means that the
// call does not fit into a record. If the call was cancelled, Park cancels the calls that it
// made, and returns an error with tools.CodeCancelled. It returns one with tools.CodeMismatch
// if another call with this id is parked, so that no question changes before its answer.
func Park(ctx context.Context, b *bus.Bus, p Parked) (uint64, error) {
	p.Detail, p.Stored = tools.Excerpt(tools.OneLine(p.Detail), maxDetail), time.Time{}
	if p.Digest == "" {
		p.Digest = p.Call.Digest()
	}
	r, err := ChangeRecord(ctx, b, p.Key(), func(r *Record) error {
		if r.Made = p.made(); !r.Cancelled.IsZero() {
			return ErrUnchanged
		}
		if r.Parked != nil {
			if err := CheckDigest(p.Call, p.Digest, r.Parked.Digest); err != nil {
				return err
			}
		}
		r.Parked, r.Parks = &p, r.Parks+1
		if p.State == InputRequired {
			r.Asked = p.Since
		}
		return nil
	})
	if err == nil && r.Parked == nil {
		if err = CancelMade(ctx, b, r.Made); err == nil {
			err = tools.Errorf(tools.CodeCancelled, "the call was cancelled")
		}
	}
	return r.Parks, err
}

// ReadParked returns a parked call; ok is false if the call is not parked.
func ReadParked(ctx context.Context, b *bus.Bus, k tools.CallKey) (p Parked, ok bool, err error) {
	r, err := ReadRecord(ctx, b, k)
	if r.Parked == nil || err != nil {
		return Parked{}, false, err
	}
	return *r.Parked, true, nil
}

// ListMoving returns the records of calls of a session, or of all sessions if it is "*", that are
// parked, or that moved at or after a time of ServerTime. A caller that reads the calls stream after
// that time, and then these records, finds each call that moves meanwhile: if the call of such a record is not
// parked, it is in the stream again or has ended. A time in the future leaves the calls that are parked.
// As in ListRecords, a record may come twice.
func ListMoving(ctx context.Context, b *bus.Bus, session string, since time.Time) (records []Record, err error) {
	err = ListRecords(ctx, b, session, func(r Record) {
		if r.Parked != nil || r.Parks > 0 && !r.changed.Before(since) {
			records = append(records, r)
		}
	})
	return records, err
}

// Resume publishes a parked call again and ends its wait. If it is called twice for one
// wait, the server drops the second message or the worker ignores it. If it comes so late that the wait has ended, and the
// call was published again since, that message stays: a worker may run it.
func Resume(ctx context.Context, b *bus.Bus, p Parked) error {
	k := p.Key()
	header := nats.Header{parkedHeader: {strconv.FormatUint(p.Number, 10)}, parkedStateHeader: {string(p.State)},
		bus.OrderHeader: {strconv.FormatUint(p.Order, 10)}}
	if !p.Started.IsZero() {
		header.Set(startedHeader, p.Started.Format(time.RFC3339Nano))
	}
	if p.Call.Priority != "" {
		header.Set(bus.PriorityHeader, p.Call.Priority)
	}
	if p.ArgsIn != "" {
		p.Call.Args = nil
		header.Set(bus.ArgsHeader, p.ArgsIn)
	}
	body, err := bus.Encode(p.Call)
	if err != nil {
		return err
	}
	if p.Traceparent != "" {
		header["traceparent"] = []string{p.Traceparent}
	}
	key := fmt.Sprintf("resume-%s-%s-%d", k.Session, k.ID, p.Number)
	over := false
	err = b.Republish(ctx, bus.Message{
		Subject: b.Call(p.Queue, p.Call.Tool, k.Session, k.ID), Body: body, Header: header, Key: key, WaitIfFull: true,
	}, key, func(uint64) bool {
		r, err := ReadRecord(ctx, b, k)
		over = err == nil && (r.Parked == nil || r.Parks != p.Number)
		return err == nil && !over
	})
	if err != nil && !over {
		return fmt.Errorf("resume call %s: %w", k.ID, err)
	}
	return unpark(ctx, b, p) // it changes no other wait
}

// unpark ends the wait of a parked call, unless the call was parked again.
func unpark(ctx context.Context, b *bus.Bus, p Parked) error {
	_, err := ChangeRecord(ctx, b, p.Key(), func(r *Record) error {
		if r.Parked == nil || r.Parks != p.Number {
			return ErrUnchanged
		}
		r.Parked = nil
		return nil
	})
	return err
}
