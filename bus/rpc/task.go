package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// TaskState says where a call stands.
type TaskState string

const (
	Queued    TaskState = "queued" // it waits for a worker
	Running   TaskState = "running"
	Succeeded TaskState = "succeeded"
	Failed    TaskState = "failed"
	Cancelled TaskState = "cancelled"
	TimedOut  TaskState = "timed_out"
	Unknown   TaskState = "unknown" // once-only, and interrupted
)

// Task is a call seen as work: mostly one that goes on in the background. It is
// derived from the events on the bus and from what workers say, so that it never
// contradicts them.
type Task struct {
	// ID and Session are the tokens that name the call.
	ID      string    `json:"id"`
	Session string    `json:"session"`
	Tool    string    `json:"tool,omitempty"`
	State   TaskState `json:"state"`
	Async   bool      `json:"async"`
	Worker  string    `json:"worker,omitempty"`
	// StartedAt is zero while the task is queued; EndedAt until it has ended.
	StartedAt time.Time      `json:"started_at,omitzero"`
	EndedAt   time.Time      `json:"ended_at,omitzero"`
	Progress  tools.Progress `json:"progress,omitzero"`
	// Message is the error of a task that did not succeed.
	Message string `json:"message,omitempty"`

	call tools.Call // as far as it is known
}

// Text is one line for people and models.
func (t Task) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s", t.ID, t.State, t.Tool)
	if !t.StartedAt.IsZero() {
		end := t.EndedAt
		if end.IsZero() {
			end = time.Now()
		}
		fmt.Fprintf(&b, "  %s", end.Sub(t.StartedAt).Round(time.Millisecond))
	}
	if p := t.Progress; p.Total > 0 {
		fmt.Fprintf(&b, "  %.0f%%", 100*p.Done/p.Total)
	}
	if t.Progress.Message != "" {
		fmt.Fprintf(&b, "  %s", tools.Excerpt(t.Progress.Message, 80))
	}
	if t.Message != "" {
		fmt.Fprintf(&b, "  %s", tools.Excerpt(oneLine(t.Message), 120))
	}
	return b.String()
}

// TaskList are the tasks of a session.
type TaskList struct {
	Tasks []Task `json:"tasks"`
}

// Text is one line for each task.
func (l TaskList) Text() string {
	if len(l.Tasks) == 0 {
		return "Nothing runs, and no jobs were started. (Where a call stands that waits or has ended: tasks get ID.)"
	}
	lines := make([]string, len(l.Tasks))
	for i, t := range l.Tasks {
		lines[i] = t.Text()
	}
	return strings.Join(lines, "\n")
}

// askWorkers is how long workers may take to say what they run.
const askWorkers = 500 * time.Millisecond

// GetTask returns one call as a task. The session and the id are tokens.
func GetTask(ctx context.Context, b *bus.Bus, session, id string) (Task, error) {
	result, answered, err := lastResult(ctx, b, b.Result(session, id))
	if err != nil {
		return Task{}, err
	}
	t := Task{ID: id, Session: session, State: Queued}
	if answered {
		t.apply(result)
		if result.Outcome != tools.Async {
			return t, nil
		}
		completion, ended, err := lastResult(ctx, b, b.Completion(session, id))
		if err != nil {
			return Task{}, err
		}
		if ended {
			t.apply(completion)
			return t, nil
		}
	}
	running, err := askRunning(ctx, b, b.RPC("running", session, id))
	if err != nil {
		return Task{}, err
	}
	for _, r := range running {
		t.run(r)
		return t, nil
	}
	if answered {
		return t, nil // its worker died; it waits for another one
	}
	call, waits, err := waiting(ctx, b, session, id)
	if err != nil {
		return Task{}, err
	}
	if !waits {
		return Task{}, tools.Errorf(tools.CodeNotFound, "there is no task %q in session %q", id, session)
	}
	t.Tool, t.call = call.Tool, call
	return t, nil
}

// apply notes what a result or completion says.
func (t *Task) apply(e tools.ResultEvent) {
	t.Tool, t.Worker = e.Tool, e.Worker
	t.call = tools.Call{ID: e.ID, Session: e.Session, Tool: e.Tool, Action: e.Action, Channel: e.Channel, ChatID: e.ChatID}
	if t.StartedAt.IsZero() {
		t.StartedAt = e.StartedAt
	}
	if e.Outcome == tools.Async {
		t.Async = true
		return
	}
	t.State = map[tools.Outcome]TaskState{
		tools.Completed: Succeeded, tools.Failed: Failed, tools.Cancelled: Cancelled, tools.Timeout: TimedOut, tools.Unknown: Unknown,
	}[e.Outcome]
	t.EndedAt = e.StartedAt.Add(time.Duration(e.DurationMS) * time.Millisecond)
	if e.Error != nil {
		t.Message = e.Error.Message
	}
}

func (t *Task) run(r tools.RunningCall) {
	t.State, t.Tool, t.Worker, t.StartedAt, t.Progress = Running, r.Tool, r.Worker, r.StartedAt, r.Progress
}

func lastResult(ctx context.Context, b *bus.Bus, subject string) (tools.ResultEvent, bool, error) {
	body, ok, err := b.Last(ctx, bus.Results, subject)
	if !ok || err != nil {
		return tools.ResultEvent{}, false, err
	}
	e, err := tools.DecodeResult(body)
	return e, err == nil, err
}

// askRunning asks all workers, and waits a while: nobody knows how many there
// are. For a single call the first answer is enough.
func askRunning(ctx context.Context, b *bus.Bus, subject string) ([]tools.RunningCall, error) {
	ctx, cancel := context.WithTimeout(ctx, askWorkers)
	defer cancel()
	inbox := b.Conn().NewInbox()
	sub, err := b.Conn().SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask what runs: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := b.Conn().PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask what runs: %w", err)
	}
	var all []tools.RunningCall
	single := len(b.Split(subject)) == 4
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("ask what runs: %w", err)
		}
		var calls []tools.RunningCall
		if json.Unmarshal(msg.Data, &calls) == nil {
			all = append(all, calls...)
		}
		if single && len(all) > 0 {
			return all, nil
		}
	}
}

// maxWaiting bounds how many waiting calls are looked through for one.
const maxWaiting = 2000

// waiting looks for a call among those that no worker has answered yet.
func waiting(ctx context.Context, b *bus.Bus, session, id string) (call tools.Call, found bool, err error) {
	stream, err := b.JetStream().Stream(ctx, b.StreamName(bus.Calls))
	if err != nil {
		return tools.Call{}, false, fmt.Errorf("look through waiting calls: %w", err)
	}
	state := stream.CachedInfo().State
	for seq, n := state.FirstSeq, 0; seq <= state.LastSeq && n < maxWaiting; n++ {
		msg, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(b.Call("*", "*")))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return tools.Call{}, false, nil
		}
		if err != nil {
			return tools.Call{}, false, fmt.Errorf("look through waiting calls: %w", err)
		}
		seq = msg.Sequence + 1
		call, err := tools.DecodeCall(msg.Data)
		if err == nil && call.IDToken() == id && (call.SessionToken() == session || call.Session == "" && session == tools.DefaultSession) {
			tokens := b.Split(msg.Subject)
			call.Tool = tokens[len(tokens)-1]
			return call, true, nil
		}
	}
	return tools.Call{}, false, nil
}

// ListTasks returns the async calls of a session, and all that run now, oldest
// first.
func ListTasks(ctx context.Context, b *bus.Bus, session string) (TaskList, error) {
	tasks := map[string]*Task{}
	err := b.Each(ctx, bus.Results, []string{b.Result(session, "*"), b.Completion(session, "*")}, func(subject string, body []byte) error {
		e, err := tools.DecodeResult(body)
		if err != nil {
			return nil // somebody else's; it is no task
		}
		id := subject[strings.LastIndexByte(subject, '.')+1:]
		t := tasks[id]
		if t == nil {
			if e.Outcome != tools.Async {
				return nil
			}
			t = &Task{ID: id, Session: session, State: Queued}
			tasks[id] = t
		}
		t.apply(e)
		return nil
	})
	if err != nil {
		return TaskList{}, err
	}
	running, err := askRunning(ctx, b, b.RPC("running", session))
	if err != nil {
		return TaskList{}, err
	}
	for _, r := range running {
		t := tasks[r.ID]
		if t == nil {
			t = &Task{ID: r.ID, Session: session}
			tasks[r.ID] = t
		}
		if t.EndedAt.IsZero() {
			t.run(r)
		}
	}
	list := TaskList{Tasks: make([]Task, 0, len(tasks))}
	for _, t := range tasks {
		list.Tasks = append(list.Tasks, *t)
	}
	slices.SortFunc(list.Tasks, func(a, b Task) int {
		if c := a.StartedAt.Compare(b.StartedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// CancelTask cancels a call, whether it waits, runs or goes on in the
// background, and returns what became of it. A call that has ended stays as it
// is, which is an error.
func CancelTask(ctx context.Context, b *bus.Bus, session, id, by string) (Task, error) {
	t, err := GetTask(ctx, b, session, id)
	if err != nil {
		return Task{}, err
	}
	if !t.EndedAt.IsZero() {
		return t, tools.Errorf(tools.CodeInvalidArguments, "the task %q has ended already: %s", id, t.State)
	}
	if err := b.Cancel(ctx, session, id); err != nil {
		return Task{}, err
	}
	// The cancellation is the call's answer from now on, whatever comes later:
	// the first one wins.
	why := tools.Errorf(tools.CodeCancelled, "the call was cancelled by %s", by)
	call := t.call
	if call.ID == "" {
		call = tools.Call{ID: id, Session: session, Tool: t.Tool}
	}
	event := tools.NewResultEvent(call, tools.Failure(why))
	event.StartedAt, event.Worker = time.Now().UTC(), by
	if !t.StartedAt.IsZero() {
		event.StartedAt, event.DurationMS = t.StartedAt, time.Since(t.StartedAt).Milliseconds()
	}
	body, err := bus.Encode(event)
	if err != nil {
		return Task{}, err
	}
	subject := b.Result(session, id)
	if t.Async {
		subject = b.Completion(session, id)
	}
	if _, err := b.Publish(ctx, bus.Message{Subject: subject, Body: body}); err != nil && !errors.Is(err, bus.ErrTaken) {
		return Task{}, err
	}
	return GetTask(ctx, b, session, id)
}
