package rpc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

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
	running, err := task.ListRunning(ctx, b, session, func(found map[string]task.RunningCall) bool {
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
