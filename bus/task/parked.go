package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Parked is a call that waits without a worker. Its record in the bucket of tasks replaces
// its message in the calls stream, which is acknowledged. When the wait is over, a worker
// publishes the call again; see ParkedCalls.
type Parked struct {
	Call  tools.Call `json:"call"`
	Queue string     `json:"queue"`
	// State is Waiting, or InputRequired if a person must answer.
	State State `json:"state"`
	// Reason says what the call waits for, such as "waiting for the model"; Detail is the
	// text of the last error.
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	// Since is when the call was parked, Until when it runs again. For InputRequired, Until
	// is the deadline of the answer.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// WaitsFor are other parked calls: this wait ends with the first of theirs.
	WaitsFor []tools.CallKey `json:"waits_for_any,omitempty"`
	// Made is set if this call made those calls, so that they are cancelled with it.
	Made bool `json:"made,omitempty"`
	// Held is the digest of a call that does not fit into a record. Its message stays in the
	// calls stream, and a worker keeps its lease; Call has only the start of the arguments.
	Held string `json:"held,omitempty"`
	// Started is when the tool of the call began, if it has begun.
	Started time.Time `json:"started,omitzero"`
	// Order is that of the delivery that was parked.
	Order uint64 `json:"order,omitempty"`
	// Worker parked the call.
	Worker      string `json:"worker"`
	Traceparent string `json:"traceparent,omitempty"`

	// Revision of the record, and when the server stored it (zero if not read from there).
	Revision uint64    `json:"-"`
	Stored   time.Time `json:"-"`
}

// DueAt returns when the wait ends, by the clock of the server. The clock of the worker that
// parked the call may differ from it.
func (p Parked) DueAt() time.Time {
	if p.Stored.IsZero() {
		return p.Until
	}
	return p.Stored.Add(p.Until.Sub(p.Since))
}

// Digest identifies the tool and the arguments of the call.
func (p Parked) Digest() string {
	if p.Held != "" {
		return p.Held
	}
	return p.Call.Digest()
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

const parkedKey = "parked"

// Headers of a call that was parked: the revision and the state of its record, and the ids of
// the calls of its session that it made and waited for.
const (
	parkedHeader      = "Stevedore-Parked"
	parkedStateHeader = "Stevedore-Parked-State"
	parkedMadeHeader  = "Stevedore-Parked-Made"
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

// Park stores the record of a parked call and returns its revision. A record with a higher
// revision replaces an earlier one of the call. bus.ErrTooLarge means that the call does
// not fit into a record.
func Park(ctx context.Context, b *bus.Bus, p Parked) (uint64, error) {
	p.Detail = tools.Excerpt(tools.OneLine(p.Detail), maxDetail)
	body, err := bus.Encode(p)
	if err != nil {
		return 0, err
	}
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err != nil {
		return 0, fmt.Errorf("park call %s: %w", p.Call.IDToken(), err)
	}
	revision, err := kv.Put(ctx, keyOf(parkedKey, p.Key()), body)
	if errors.Is(err, nats.ErrMaxPayload) {
		err = fmt.Errorf("%w: %w", bus.ErrTooLarge, err)
	}
	if err != nil {
		return 0, fmt.Errorf("park call %s: %w", p.Call.IDToken(), err)
	}
	return revision, nil
}

// ReadParked returns the record of a parked call; ok is false if the call is not parked.
func ReadParked(ctx context.Context, b *bus.Bus, k tools.CallKey) (p Parked, ok bool, err error) {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err != nil {
		return Parked{}, false, err
	}
	entry, err := kv.Get(ctx, keyOf(parkedKey, k))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Parked{}, false, nil
	}
	if err != nil {
		return Parked{}, false, fmt.Errorf("read parked call %s: %w", k.ID, err)
	}
	p, err = decodeParked(entry)
	return p, err == nil, err
}

// ListParked returns the parked calls of a session, or of all sessions if it is "*".
func ListParked(ctx context.Context, b *bus.Bus, session string) ([]Parked, error) {
	var calls []Parked
	err := eachRecord(ctx, b, keyOf(parkedKey, tools.CallKey{Session: session, ID: "*"}), func(entry jetstream.KeyValueEntry) {
		if p, err := decodeParked(entry); err == nil { // otherwise, it is not a record of a worker
			calls = append(calls, p)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list parked calls: %w", err)
	}
	return calls, nil
}

// Resume publishes a parked call again and removes its record. If it is called twice for
// one record, the server drops the second message or the worker ignores it.
func Resume(ctx context.Context, b *bus.Bus, p Parked) error {
	body, err := bus.Encode(p.Call)
	if err != nil {
		return err
	}
	k := p.Key()
	header := nats.Header{parkedHeader: {strconv.FormatUint(p.Revision, 10)}, parkedStateHeader: {string(p.State)}, bus.OrderHeader: {strconv.FormatUint(p.Order, 10)}}
	if !p.Started.IsZero() {
		header.Set(startedHeader, p.Started.Format(time.RFC3339Nano))
	}
	for _, made := range p.made() {
		if made.Session == k.Session {
			header.Add(parkedMadeHeader, made.ID)
		}
	}
	if p.Traceparent != "" {
		header["traceparent"] = []string{p.Traceparent}
	}
	key := fmt.Sprintf("resume-%s-%s-%d", k.Session, k.ID, p.Revision)
	err = b.Republish(ctx, bus.Message{
		Subject: b.Call(p.Queue, p.Call.Tool, k.Session, k.ID), Body: body, Header: header, Key: key, WaitIfFull: true,
	}, key, func(uint64) bool { return true })
	if err != nil {
		return fmt.Errorf("resume call %s: %w", k.ID, err)
	}
	return Unpark(ctx, b, p)
}

// Unpark removes the record of a parked call, unless the call was parked again.
func Unpark(ctx context.Context, b *bus.Bus, p Parked) error {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		err = kv.Purge(ctx, keyOf(parkedKey, p.Key()), jetstream.LastRevision(p.Revision), jetstream.PurgeTTL(recordTTL))
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return nil // another worker removed it, or the call was parked again
	}
	if err != nil {
		return fmt.Errorf("remove the record of parked call %s: %w", p.Call.IDToken(), err)
	}
	return nil
}

// ParkedRevision returns the revision and the state of the record from which a delivered
// call was published, or 0 if the call was not parked.
func ParkedRevision(d *bus.Delivery) (revision uint64, state State) {
	revision, err := strconv.ParseUint(d.Header(parkedHeader), 10, 64)
	if err != nil {
		return 0, ""
	}
	return revision, State(d.Header(parkedStateHeader))
}

// ParkedStarted returns when the tool of a delivered call that was parked began, or now.
func ParkedStarted(d *bus.Delivery, now time.Time) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, d.Header(startedHeader)); err == nil && at.Before(now) {
		return at
	}
	return now
}

// ParkedMade returns the calls that a delivered call of a session made and waited for while
// it was parked. Any client can set headers, so they are of the same session.
func ParkedMade(d *bus.Delivery, session string) (made []tools.CallKey) {
	for _, id := range d.HeaderValues(parkedMadeHeader) {
		if tools.IsToken(id) {
			made = append(made, tools.CallKey{Session: session, ID: id})
		}
	}
	return made
}

func decodeParked(entry jetstream.KeyValueEntry) (Parked, error) {
	p := Parked{Revision: entry.Revision(), Stored: entry.Created()}
	if err := json.Unmarshal(entry.Value(), &p); err != nil {
		return Parked{}, fmt.Errorf("decode parked call %q: %w", entry.Key(), err)
	}
	if want := keyOf(parkedKey, p.Key()); want != entry.Key() || !tools.IsToken(p.Queue) || p.Call.Validate() != nil {
		return Parked{}, fmt.Errorf("decode parked call %q: it has another call, or an invalid one", entry.Key())
	}
	return p, nil
}

func keyOf(kind string, k tools.CallKey) string {
	return strings.Join([]string{kind, k.Session, k.ID}, ".")
}
