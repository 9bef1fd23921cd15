package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

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
	// QueuedAt is when a task was submitted that no worker has started yet.
	// StartedAt is zero until one has; EndedAt until it has ended.
	QueuedAt  time.Time      `json:"queued_at,omitzero"`
	StartedAt time.Time      `json:"started_at,omitzero"`
	EndedAt   time.Time      `json:"ended_at,omitzero"`
	Progress  tools.Progress `json:"progress,omitzero"`
	// Message is the error of a task that did not succeed, or what keeps one
	// from running.
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
	} else if !t.QueuedAt.IsZero() {
		fmt.Fprintf(&b, "  waits for %s", time.Since(t.QueuedAt).Round(time.Millisecond))
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
	// Omitted counts those that would make the list too long: what has ended
	// is left out first, the oldest before all.
	Omitted int `json:"omitted,omitempty"`
	// Incomplete is set if so many calls wait for workers, of all sessions,
	// that some of this one may be among those that were not looked at.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Text is one line for each task.
func (l TaskList) Text() string {
	if len(l.Tasks) == 0 {
		return "Nothing waits or runs, and no jobs were started. (What became of a call that has ended: tasks get ID.)"
	}
	lines := make([]string, len(l.Tasks))
	for i, t := range l.Tasks {
		lines[i] = t.Text()
	}
	if l.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more; where one of them stands: tasks get ID)", l.Omitted))
	}
	if l.Incomplete {
		lines = append(lines, "(Very many calls wait for workers; some of this session may not be listed.)")
	}
	return strings.Join(lines, "\n")
}

// GetTask returns one call as a task. The session and the id are tokens.
func GetTask(ctx context.Context, b *bus.Bus, session, id string) (Task, error) {
	t, ended, err := answeredTask(ctx, b, session, id)
	if ended || err != nil {
		return t, err
	}
	if !t.Async {
		waits, all, err := unsettled(ctx, b, session, id)
		if err != nil {
			return Task{}, err
		}
		switch {
		case len(waits) == 0 && all: // it was never there, or was answered just now
			t, _, err = answeredTask(ctx, b, session, id)
			if err == nil && t.Tool == "" {
				err = tools.Errorf(tools.CodeNotFound, "there is no task %q in session %q", id, session)
			}
			return t, err
		case len(waits) > 0:
			t.wait(waits[0])
			if !waits[0].delivered {
				return t, nil
			}
		}
	}
	running, err := askRunning(ctx, b, b.RPC("running", session, id), func(map[string]tools.RunningCall) bool { return false })
	if err != nil {
		return Task{}, err
	}
	for _, r := range running {
		t.run(r)
		return t, nil
	}
	t.Message = leftAlone
	if t.Tool == "" {
		err = tools.Errorf(tools.CodeNotFound, "there is no task %q in session %q, as far as can be seen: very many calls wait for workers", id, session)
	}
	return t, err
}

// leftAlone is said of what a worker had, and no worker says that it runs.
const leftAlone = "no worker runs it now; it is tried again when its lease, or the pause after a failure, is over"

// answeredTask returns a task by what stands on the bus, and whether that is
// its end. Tool is empty if nothing stands there.
func answeredTask(ctx context.Context, b *bus.Bus, session, id string) (t Task, ended bool, err error) {
	t = Task{ID: id, Session: session, State: Queued}
	for _, subject := range []string{b.Result(session, id), b.Completion(session, id)} {
		event, ok, err := lastResult(ctx, b, subject)
		if !ok || err != nil {
			return t, false, err
		}
		t.apply(event)
		if event.Outcome != tools.Async {
			return t, true, nil
		}
	}
	return t, false, nil
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
	t.QueuedAt = time.Time{}
}

func (t *Task) wait(c unsettledCall) { t.Tool, t.call, t.QueuedAt = c.call.Tool, c.call, c.at }

func lastResult(ctx context.Context, b *bus.Bus, subject string) (tools.ResultEvent, bool, error) {
	body, ok, err := b.Last(ctx, bus.Results, subject)
	if !ok || err != nil {
		return tools.ResultEvent{}, false, err
	}
	e, err := tools.DecodeResult(body)
	return e, err == nil, err
}

const (
	// askWorkers is how long a worker may take to say what it runs.
	askWorkers = 2 * time.Second
	// askOthers is how long those are waited for of whom nobody knows: calls
	// whose message expired while they run.
	askOthers = 50 * time.Millisecond
)

// askRunning asks all workers for a call, or all that a session has running, and
// returns what they say, by token. Those that have nothing are silent, so nobody
// knows how many will answer: it is over soon after enough says that nothing is
// missing any more. For a single call, the first answer is enough.
func askRunning(ctx context.Context, b *bus.Bus, subject string, enough func(map[string]tools.RunningCall) bool) (map[string]tools.RunningCall, error) {
	ctx, cancel := context.WithTimeout(ctx, askWorkers)
	defer cancel()
	inbox := b.Conn().NewInbox()
	sub, err := b.Conn().SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask what runs: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // gone with the connection otherwise
	if err := b.Conn().PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask what runs: %w", err)
	}
	found := map[string]tools.RunningCall{}
	single, soon := len(b.Split(subject)) == 4, false
	for {
		if !soon && enough(found) {
			soon = true
			ctx, cancel = context.WithTimeout(ctx, askOthers)
			defer cancel()
		}
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("ask what runs: %w", err)
		}
		var calls []tools.RunningCall
		if json.Unmarshal(msg.Data, &calls) != nil {
			continue // somebody else's
		}
		for _, c := range calls {
			found[c.ID] = c
		}
		if single && len(found) > 0 {
			return found, nil
		}
	}
}

// maxListed bounds a list, which has to fit into one message.
const maxListed = 500

// ListTasks returns what waits and runs in a session, and its jobs in the
// background, also those that have ended: oldest first, what waits last.
func ListTasks(ctx context.Context, b *bus.Bus, session string) (TaskList, error) {
	// What waits is read first: what is answered meanwhile has its result.
	waits, all, err := unsettled(ctx, b, session, "")
	if err != nil {
		return TaskList{}, err
	}
	tasks, ended, err := asyncTasks(ctx, b, session)
	if err != nil {
		return TaskList{}, err
	}
	missing := map[string]bool{} // a worker has them, unless it died
	for _, c := range waits {
		if !ended[c.id] && c.delivered {
			missing[c.id] = true
		}
	}
	running, err := askRunning(ctx, b, b.RPC("running", session), func(found map[string]tools.RunningCall) bool {
		maps.DeleteFunc(missing, func(id string, _ bool) bool { _, ok := found[id]; return ok })
		return all && len(missing) == 0
	})
	if err != nil {
		return TaskList{}, err
	}
	for _, c := range waits {
		if !ended[c.id] && tasks[c.id] == nil {
			tasks[c.id] = &Task{ID: c.id, Session: session, State: Queued}
			tasks[c.id].wait(c)
		}
	}
	for id, r := range running {
		if ended[id] {
			continue
		}
		if tasks[id] == nil {
			tasks[id] = &Task{ID: id, Session: session}
		}
		tasks[id].run(r)
	}
	for id := range missing {
		tasks[id].Message = leftAlone
	}
	list := shortened(tasks)
	list.Incomplete = !all
	return list, nil
}

// asyncTasks returns the async calls of a session by what stands on the bus, and
// which calls have ended, of whatever kind.
func asyncTasks(ctx context.Context, b *bus.Bus, session string) (tasks map[string]*Task, ended map[string]bool, err error) {
	tasks, ended = map[string]*Task{}, map[string]bool{}
	err = b.Each(ctx, bus.Results, []string{b.Result(session, "*"), b.Completion(session, "*")}, func(subject string, body []byte) error {
		e, err := tools.DecodeResult(body)
		if err != nil {
			return nil // somebody else's; it is no task
		}
		id := subject[strings.LastIndexByte(subject, '.')+1:]
		t := tasks[id]
		if t == nil && e.Outcome == tools.Async {
			t = &Task{ID: id, Session: session, State: Queued}
			tasks[id] = t
		}
		if t != nil {
			t.apply(e)
		}
		if e.Outcome != tools.Async {
			ended[id] = true
		}
		return nil
	})
	return tasks, ended, err
}

// shortened sorts tasks, and leaves out what makes the list too long.
func shortened(tasks map[string]*Task) TaskList {
	list := TaskList{Tasks: make([]Task, 0, len(tasks))}
	for _, t := range tasks {
		list.Tasks = append(list.Tasks, *t)
	}
	slices.SortFunc(list.Tasks, func(a, b Task) int {
		switch aWaits, bWaits := a.StartedAt.IsZero(), b.StartedAt.IsZero(); {
		case aWaits && !bWaits:
			return 1
		case !aWaits && bWaits:
			return -1
		}
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), a.QueuedAt.Compare(b.QueuedAt), strings.Compare(a.ID, b.ID))
	})
	list.Omitted = max(len(list.Tasks)-maxListed, 0)
	over := list.Omitted
	list.Tasks = slices.DeleteFunc(list.Tasks, func(t Task) bool {
		leave := over > 0 && !t.EndedAt.IsZero()
		if leave {
			over--
		}
		return leave
	})
	list.Tasks = list.Tasks[:min(maxListed, len(list.Tasks))]
	for i := range list.Tasks {
		t := &list.Tasks[i]
		t.Message, t.Progress.Message = tools.Excerpt(t.Message, 300), tools.Excerpt(t.Progress.Message, 300)
	}
	return list
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
