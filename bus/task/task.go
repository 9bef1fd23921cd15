package task

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// State is the state of a task. A task that has ended has the outcome of its result.
type State string

const (
	Queued State = "queued"
	// Waiting: the call is parked, for example because the provider of the model is down.
	Waiting State = "waiting"
	// InputRequired: the call is parked until a person approves it.
	InputRequired State = "input_required"
	Running       State = "running"
	Completed           = State(tools.Completed)
	Failed              = State(tools.Failed)
	Cancelled           = State(tools.Cancelled)
	Timeout             = State(tools.Timeout)
	Unknown             = State(tools.Unknown)
)

// Task is a call and its state. It is derived from the stored events and the answers
// of workers, so it never contradicts them.
type Task struct {
	// ID and Session are the tokens of the call.
	ID      string `json:"id"`
	Session string `json:"session"`
	Tool    string `json:"tool,omitempty"`
	// Args is the start of the arguments; see tools.ResultEvent. It is empty while the call
	// runs.
	Args   string `json:"args_excerpt,omitempty"`
	State  State  `json:"state"`
	Async  bool   `json:"async"`
	Worker string `json:"worker,omitempty"`
	// QueuedAt is set until a worker has started the call, StartedAt after that, and
	// EndedAt after the call has ended.
	QueuedAt  time.Time      `json:"queued_at,omitzero"`
	StartedAt time.Time      `json:"started_at,omitzero"`
	EndedAt   time.Time      `json:"ended_at,omitzero"`
	Progress  tools.Progress `json:"progress,omitzero"`
	// Message is the error of a task that did not succeed, or the reason why a task
	// is not running.
	Message string `json:"message,omitempty"`

	call tools.Call // the known fields of the call
}

// Text is one line for people and models.
func (t Task) Text() string {
	parts, took := []string{t.ID, string(t.State), t.Tool}, t.TimeText()
	if t.StartedAt.IsZero() && took != "" {
		took = "waits for " + took
	}
	for _, part := range []string{took, t.Details()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "  ")
}

// TimeText is how long the call took, runs or waits; empty if that is not known.
func (t Task) TimeText() string {
	switch {
	case !t.StartedAt.IsZero() && !t.EndedAt.IsZero():
		return t.EndedAt.Sub(t.StartedAt).Round(time.Millisecond).String()
	case !t.StartedAt.IsZero():
		return time.Since(t.StartedAt).Round(time.Millisecond).String()
	case !t.QueuedAt.IsZero():
		return time.Since(t.QueuedAt).Round(time.Millisecond).String()
	}
	return ""
}

// Details are the progress, the message and the arguments of the call, as far as they are known, in one line.
func (t Task) Details() string {
	var parts []string
	if p := t.Progress; p.Total > 0 {
		parts = append(parts, fmt.Sprintf("%.0f%%", 100*p.Done/p.Total))
	}
	for _, text := range []string{tools.Excerpt(t.Progress.Message, 80), tools.Excerpt(tools.OneLine(t.Message), 120), tools.Excerpt(tools.OneLine(t.Args), 120)} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "  ")
}

// Get returns one call as a task. The session and the id are tokens.
//
// A call moves from the calls stream to its record or its result, and from its record back to
// the stream. Get reads the three in this order, so that it misses only a call that was parked
// when it read the stream, and not any more when it read the record; the record shows that,
// and Get reads the three again.
func Get(ctx context.Context, b *bus.Bus, session, id string) (t Task, err error) {
	for range 3 {
		var moved bool
		if t, moved, err = get(ctx, b, session, id); err != nil || !moved {
			return t, err
		}
	}
	return t, notFound(session, id) // its result is gone, and its record is not yet
}

// IsLost reports whether a call without a final result is in no stream and no bucket: nobody
// published it, or somebody removed it. IsLost asks the server and not the workers.
func IsLost(ctx context.Context, b *bus.Bus, k tools.CallKey) (bool, error) {
	for range 3 { // a call that moves between the places while they are read is in one of them then
		p, err := look(ctx, b, k.Session, k.ID)
		if err != nil || len(p.queued) > 0 || p.record.Parked != nil || len(p.stored) > 0 {
			return false, err
		}
		if p.record.Parks == 0 {
			break
		}
	}
	return true, nil
}

// places is what the server has of a call.
type places struct {
	queued []unsettledCall
	record Record
	stored []StoredResult
}

// look reads the places of a call, in the order in which calls move.
func look(ctx context.Context, b *bus.Bus, session, id string) (p places, err error) {
	if p.queued, err = unsettled(ctx, b, session, id); err != nil {
		return p, err
	}
	if p.record, err = ReadRecord(ctx, b, tools.CallKey{Session: session, ID: id}); err != nil {
		return p, err
	}
	p.stored, err = ReadResults(ctx, b, session, id)
	return p, err
}

func notFound(session, id string) error {
	return tools.Errorf(tools.CodeNotFound, "there is no task %q in session %q", id, session)
}

// get reads the task once; moved is true if only its record exists.
func get(ctx context.Context, b *bus.Bus, session, id string) (_ Task, moved bool, err error) {
	p, err := look(ctx, b, session, id)
	if err != nil {
		return Task{}, false, err
	}
	t := Task{ID: id, Session: session, State: Queued}
	for _, event := range p.stored {
		t.apply(event.ResultEvent)
	}
	switch {
	case Ended(p.stored):
		return t, false, nil
	case p.record.Parked != nil:
		t.setParked(p.record)
		return t, false, nil
	case t.Async:
	case len(p.queued) > 0:
		t.setQueued(p.queued[0])
		if !p.queued[0].delivered && p.record.Ahead != p.queued[0].sequence {
			return t, false, nil
		}
	case p.record.Parks == 0:
		return t, false, notFound(session, id)
	default:
		moved = true
	}
	running, ok, err := FindRunning(ctx, b, session, id, AskTimeout)
	if err != nil {
		return Task{}, false, err
	}
	if ok {
		t.setRunning(running)
		return t, false, nil
	}
	t.Message = noWorker
	return t, moved, nil
}

// noWorker is the message of a task that was delivered to a worker, but that no
// worker reports running. On a busy machine, one may run it all the same.
var noWorker = fmt.Sprintf("no worker said within %s that it runs it; if none does, the server delivers it again when its lease or the pause after a failure ends", AskTimeout)

// apply updates the task with a result or completion.
func (t *Task) apply(e tools.ResultEvent) {
	t.Tool, t.Worker, t.Args = e.Tool, e.Worker, e.Args
	t.call = tools.Call{ID: e.ID, Session: e.Session, Tool: e.Tool, Action: e.Action, Channel: e.Channel, ChatID: e.ChatID, Delivery: e.Delivery}
	if t.StartedAt.IsZero() {
		t.StartedAt = e.StartedAt
	}
	if e.Outcome == tools.Async {
		t.Async = true
		return
	}
	t.State = State(e.Outcome)
	t.EndedAt = e.EndedAt()
	if e.Error != nil {
		t.Message = e.Error.Message
	}
}

func (t *Task) setRunning(r RunningCall) {
	t.State, t.Tool, t.Worker, t.StartedAt, t.Progress = Running, r.Tool, r.Worker, r.StartedAt, r.Progress
	t.QueuedAt = time.Time{}
}

func (t *Task) setParked(r Record) {
	p := *r.Parked
	t.State, t.Tool, t.call, t.Message = p.State, p.Call.Tool, p.Call, p.Text()
	switch {
	case p.State != InputRequired || r.Asks():
	case r.Answer == nil:
		t.State, t.Message = Waiting, "waiting for a worker, since it was cancelled"
	default:
		t.State, t.Message = Waiting, "waiting for a worker, since it was answered"
	}
	t.Args = tools.ShownArgs(p.Call)
	if t.StartedAt.IsZero() {
		t.QueuedAt = p.Since
	}
}

func (t *Task) setQueued(c unsettledCall) {
	t.Tool, t.Args, t.call, t.QueuedAt = c.call.Tool, tools.ShownArgs(c.call), c.call, c.at
}
