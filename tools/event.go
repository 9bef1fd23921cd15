package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// Outcome says how a call ended.
type Outcome string

const (
	// Completed: the tool ran and answered.
	Completed Outcome = "completed"
	// Async: the tool started a job; its completion will follow.
	Async Outcome = "async"
	// Failed: the tool returned an error, or the worker could not run it.
	Failed Outcome = "failed"
	// Cancelled: a client cancelled the call.
	Cancelled Outcome = "cancelled"
	// Timeout: the deadline passed.
	Timeout Outcome = "timeout"
	// Unknown: a once-only tool was interrupted. It may have acted; the worker does
	// not run it again.
	Unknown Outcome = "unknown"
)

// Valid reports whether o is one of the outcomes above.
func (o Outcome) Valid() bool {
	switch o {
	case Completed, Async, Failed, Cancelled, Timeout, Unknown:
		return true
	}
	return false
}

// ResultEvent is the body of result and completion events: a result and how it came
// about.
type ResultEvent struct {
	ID      string  `json:"id"`
	Session string  `json:"session"`
	Tool    string  `json:"tool"`
	Outcome Outcome `json:"outcome"`
	Result
	Error *EventError `json:"error,omitempty"`
	// Args is the start of the call's arguments, at most maxShownArgs bytes of JSON, so that
	// people see what was asked.
	Args string `json:"args_excerpt,omitempty"`
	// Attempt is the number of the call's delivery, from 1.
	Attempt int `json:"attempt"`
	// Worker is the name of the worker that ran the call.
	Worker string `json:"worker"`
	// Digest is Call.Digest; it is empty for raw results.
	Digest     string    `json:"call_digest,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	DurationMS int64     `json:"duration_ms"`
	// Channel, ChatID and Action are those of the call, for the notifier.
	Channel string `json:"channel,omitempty"`
	ChatID  string `json:"chat_id,omitempty"`
	Action  string `json:"action,omitempty"`
	// Delivery is that of the call.
	Delivery Delivery `json:"delivery,omitempty"`
}

// EndedAt is when the call ended. It is not zero, although a program that is no worker may not say when the call began.
func (e ResultEvent) EndedAt() time.Time {
	return cmp.Or(e.StartedAt, time.Unix(0, 0).UTC()).Add(time.Duration(e.DurationMS) * time.Millisecond)
}

// EventError is an Error on the wire.
type EventError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// CallSequence is that of the call's message in its stream, if the worker gave up on it (CodeGivenUp).
	CallSequence uint64 `json:"call_sequence,omitempty"`
}

// maxShownArgs is how much of a call's arguments its result keeps, in bytes.
const maxShownArgs = 500

// ShownArgs returns the start of the arguments of a call, for people, without the limits of a sub-agent,
// which no model wrote.
func ShownArgs(call Call) string {
	args, fields := call.Args, map[string]json.RawMessage(nil)
	if bytes.HasPrefix(args, []byte(`{"grant":`)) && json.Unmarshal(args, &fields) == nil {
		delete(fields, "grant")
		args, _ = jsonform.Encode(fields) // what was decoded
	}
	return Excerpt(strings.ToValidUTF8(string(args[:min(len(args), 2*maxShownArgs)]), "\uFFFD"), maxShownArgs)
}

// NewResultEvent returns the event that answers call with res. The caller sets
// Attempt, Worker, Digest and the times.
func NewResultEvent(call Call, res *Result) ResultEvent {
	return ResultEvent{
		ID: call.ID, Session: call.Session, Tool: call.Tool, Args: ShownArgs(call),
		Outcome: OutcomeOf(res), Result: *res, Error: res.eventError(),
		Channel: call.Channel, ChatID: call.ChatID, Action: call.Action, Delivery: call.Delivery,
	}
}

// eventError returns what failed, or nil.
func (r *Result) eventError() *EventError {
	if !r.IsError {
		return nil
	}
	err := r.Err
	if err == nil {
		err = Errorf(CodeToolFailed, "the tool failed")
	}
	return &EventError{Code: CodeOf(err), Message: err.Error()}
}

// OutcomeOf derives the outcome from a result.
func OutcomeOf(res *Result) Outcome {
	switch {
	case res.Async && !res.IsError:
		return Async
	case !res.IsError:
		return Completed
	}
	switch CodeOf(res.Err) {
	case CodeTimeout:
		return Timeout
	case CodeCancelled:
		return Cancelled
	case CodeUnknownOutcome:
		return Unknown
	}
	return Failed
}

// DecodeResult decodes the body of a result or completion event.
func DecodeResult(data []byte) (ResultEvent, error) { return decodeEvent[ResultEvent]("result", data) }

// RawEvent is the body of a raw event: the result of a tool that another program ran.
// A worker offloads and publishes it like any result. One of for_llm, content and
// object has the text.
type RawEvent struct {
	Call
	ForLLM *string `json:"for_llm,omitempty"`
	UserContent
	Silent  bool `json:"silent,omitempty"`
	IsError bool `json:"is_error,omitempty"`
	// Error says what failed, if IsError is set. Default: the tool failed.
	Error *EventError `json:"error,omitempty"`
	// ExitCode is that of the command that the tool ran, if it did.
	ExitCode *int `json:"exit_code,omitempty"`
	// Note follows the text for the model, and is not part of what is stored.
	Note string `json:"note,omitempty"`
	// Content is a JSON string or an array of content blocks.
	Content json.RawMessage `json:"content,omitempty"`
	// Object is the name of an object that the producer uploaded into the blob
	// bucket.
	Object string `json:"object,omitempty"`
}

// RawOf returns the raw event of a result. ok is false if an event cannot have it: it has more than
// limit bytes, is not text, or is not complete.
func RawOf(call Call, res *Result, limit int64) (e RawEvent, ok bool) {
	e = RawEvent{Call: call, UserContent: res.UserContent, Silent: res.Silent, IsError: res.IsError, Error: res.eventError(), ExitCode: res.ExitCode}
	text := res.ForLLM
	if out := res.Output; out != nil {
		var err error
		if text, ok, err = out.Text(limit); !ok || err != nil || out.Err() != nil || out.Truncated() {
			return e, false
		}
		if n := out.Written(); n > 0 {
			text, e.Note = text[:n], text[n:]
		}
	}
	if e.ForLLM = &text; res.Blocks != nil {
		e.ForLLM, e.Content = nil, res.Blocks
	}
	return e, utf8.ValidString(text) && int64(len(text)+len(e.Content)) <= limit && !res.Async && res.Artifact == nil
}

// DecodeRaw decodes the body of a raw event, with the errors of DecodeCall.
func DecodeRaw(data []byte) (RawEvent, error) { return decodeEvent[RawEvent]("raw result", data) }

// Tick is the body of a tick: the call that a schedule makes.
type Tick struct {
	Call
	// Queue is the queue of the call; empty means the default queue.
	Queue string `json:"queue,omitempty"`
	// TimeoutS is the timeout of each run, in seconds. Default a day.
	TimeoutS int64 `json:"timeout_s,omitempty"`
	// Overlap lets a tick run before the call of the previous tick has its result.
	// Otherwise such a tick is skipped.
	Overlap bool `json:"overlap,omitempty"`
	// Name is the name of the schedule in the ids of its calls; default the name in the
	// subject. A job has a name that is unique in its session.
	Name string `json:"name,omitempty"`
}

// DecodeTick decodes the body of a tick.
func DecodeTick(data []byte) (Tick, error) {
	t, err := decodeEvent[Tick]("tick", data)
	if err != nil {
		return Tick{}, err
	}
	if !IsToken(t.Tool) {
		return Tick{}, fmt.Errorf("decode tick: the tool %q is not of the form %s", Excerpt(t.Tool, 80), TokenForm)
	}
	if t.Name != "" && !IsToken(t.Name) {
		return Tick{}, fmt.Errorf("decode tick: the name %q is not of the form %s", Excerpt(t.Name, 80), TokenForm)
	}
	return t, nil
}

// ProgressEvent is the body of a progress event.
type ProgressEvent struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Tool    string `json:"tool"`
	Progress
	At time.Time `json:"at"`
}
