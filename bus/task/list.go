package task

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Listing is the tasks of a session.
type Listing struct {
	Tasks []Task `json:"tasks"`
	// Omitted counts the tasks that would make the list too long: first the ended
	// ones, starting with the oldest.
	Omitted int `json:"omitted,omitempty"`
	// Incomplete is set if too many calls of the session are queued to look at all of
	// them.
	Incomplete bool `json:"incomplete,omitempty"`
	// Next is the Page.After of the next page; empty if there is none, and in the result of
	// List.
	Next string `json:"next,omitempty"`
}

// Text is one line for each task.
func (l Listing) Text() string {
	if len(l.Tasks) == 0 && l.Next == "" {
		return "No call is queued or running, and no async call is stored. (To see a call that has ended: tasks get ID.)"
	}
	lines := make([]string, len(l.Tasks))
	for i, t := range l.Tasks {
		lines[i] = t.Text()
	}
	if l.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more; to see one of them: tasks get ID)", l.Omitted))
	}
	if l.Next != "" {
		lines = append(lines, fmt.Sprintf("(There may be more: continue after %s.)", l.Next))
	}
	if l.Incomplete {
		lines = append(lines, "(Too many calls are queued to check all of them; calls of this session may be missing.)")
	}
	return strings.Join(lines, "\n")
}

// maxListed is the most tasks in a list, which has to fit into one message.
const maxListed = 500

// List returns the queued and running calls of a session and its async calls,
// including those that have ended: oldest first, queued calls last.
func List(ctx context.Context, b *bus.Bus, session string) (Listing, error) {
	// Read the queued calls first: a call that ends meanwhile has a stored result.
	queued, all, err := unsettled(ctx, b, session, "")
	if err != nil {
		return Listing{}, err
	}
	tasks, ended, err := asyncTasks(ctx, b, session)
	if err != nil {
		return Listing{}, err
	}
	missing := map[string]bool{} // delivered calls that no worker has reported yet
	for _, c := range queued {
		if !ended[c.id] && c.delivered {
			missing[c.id] = true
		}
	}
	running, err := ListRunning(ctx, b, session, func(found map[string]RunningCall) bool {
		maps.DeleteFunc(missing, func(id string, _ bool) bool { _, ok := found[id]; return ok })
		return all && len(missing) == 0
	})
	if err != nil {
		return Listing{}, err
	}
	for _, c := range queued {
		if !ended[c.id] && tasks[c.id] == nil {
			tasks[c.id] = &Task{ID: c.id, Session: session, State: Queued}
			tasks[c.id].setQueued(c)
		}
	}
	parked, err := ListParked(ctx, b, session)
	if err != nil {
		return Listing{}, err
	}
	for _, p := range parked {
		id := p.Key().ID
		if ended[id] {
			continue
		}
		if tasks[id] == nil {
			tasks[id] = &Task{ID: id, Session: session}
		}
		tasks[id].setParked(p)
		delete(missing, id)
	}
	for id, r := range running {
		if ended[id] {
			continue
		}
		if tasks[id] == nil {
			tasks[id] = &Task{ID: id, Session: session}
		}
		tasks[id].setRunning(r)
	}
	for id := range missing {
		tasks[id].Message = noWorker
	}
	list := shorten(tasks)
	list.Incomplete = !all
	return list, nil
}

// asyncTasks returns the async calls of a session from their stored events, and
// the ids of all calls that have ended.
func asyncTasks(ctx context.Context, b *bus.Bus, session string) (tasks map[string]*Task, ended map[string]bool, err error) {
	tasks, ended = map[string]*Task{}, map[string]bool{}
	for m, err := range b.Read(ctx, bus.Results, bus.Query{Subject: b.ResultsOf(session)}) {
		if err != nil {
			return nil, nil, err
		}
		e, err := DecodeResult(b, m.Subject, m.Body)
		if err != nil {
			continue // a claim, or not a result of ours
		}
		id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
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
	}
	return tasks, ended, nil
}

// shorten sorts tasks and omits those that make the list too long.
func shorten(tasks map[string]*Task) Listing {
	list := Listing{Tasks: make([]Task, 0, len(tasks))}
	for _, t := range tasks {
		list.Tasks = append(list.Tasks, *t)
	}
	slices.SortFunc(list.Tasks, func(a, b Task) int {
		switch aQueued, bQueued := a.StartedAt.IsZero(), b.StartedAt.IsZero(); {
		case aQueued && !bQueued:
			return 1
		case !aQueued && bQueued:
			return -1
		}
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), a.QueuedAt.Compare(b.QueuedAt), strings.Compare(a.ID, b.ID))
	})
	list.Omitted = max(len(list.Tasks)-maxListed, 0)
	over := list.Omitted
	list.Tasks = slices.DeleteFunc(list.Tasks, func(t Task) bool {
		omit := over > 0 && !t.EndedAt.IsZero()
		if omit {
			over--
		}
		return omit
	})
	list.Tasks = list.Tasks[:min(maxListed, len(list.Tasks))]
	for i, t := range list.Tasks {
		list.Tasks[i] = t.shortened()
	}
	return list
}

// shortened returns the task as lists have it.
func (t Task) shortened() Task {
	t.Message, t.Progress.Message = tools.Excerpt(t.Message, 300), tools.Excerpt(t.Progress.Message, 300)
	return t
}
