package task

import (
	"cmp"
	"context"
	"fmt"
	"math"
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
	// them, or if one moved so often that it was not found.
	Incomplete bool `json:"incomplete,omitempty"`
	// Next is the Page.After of the next page; empty if there is none, and in the result of
	// List.
	Next string `json:"next,omitempty"`
}

// Text is one line for each task.
func (l Listing) Text() string {
	if len(l.Tasks) == 0 && l.Next == "" {
		return "No call is queued or running, and no async call is stored.\n(To see a call that has ended: tasks get ID.)"
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
		lines = append(lines, "(Calls of this session may be missing: too many are queued to check all of them, or one began to wait meanwhile.)")
	}
	return strings.Join(lines, "\n")
}

// maxListed is the most tasks in a list, which has to fit into one message.
const maxListed = 500

// List returns the queued and running calls of a session and its async calls,
// including those that have ended: oldest first, queued calls last.
func List(ctx context.Context, b *bus.Bus, session string) (Listing, error) {
	began, err := ServerTime(ctx, b)
	if err != nil {
		return Listing{}, err
	}
	l, err := newPageReader(ctx, b, session, maxWaiting)
	if err != nil {
		return Listing{}, err
	}
	if _, err := l.readParked(ctx, 0); err != nil {
		return Listing{}, err
	}
	left, err := l.readCalls(ctx, 0)
	if err != nil {
		return Listing{}, err
	}
	lost, err := l.readMoved(ctx, began)
	if err != nil {
		return Listing{}, err
	}
	l.limit = math.MaxInt
	for before := uint64(0); ; {
		if before, err = l.readResults(ctx, before); err != nil {
			return Listing{}, err
		}
		if before == 0 {
			break
		}
	}
	if err := l.setRunning(ctx); err != nil {
		return Listing{}, err
	}
	list := shorten(l.tasks)
	list.Incomplete = left > 0 || lost
	return list, nil
}

// shorten sorts tasks and omits those that make the list too long.
func shorten(tasks []*Task) Listing {
	list := Listing{Tasks: make([]Task, 0, len(tasks))}
	slices.SortFunc(tasks, func(a, b *Task) int { // pointers: for each type of struct, the program would be 20 kB larger
		switch aQueued, bQueued := a.StartedAt.IsZero(), b.StartedAt.IsZero(); {
		case aQueued && !bQueued:
			return 1
		case !aQueued && bQueued:
			return -1
		}
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), a.QueuedAt.Compare(b.QueuedAt), strings.Compare(a.ID, b.ID))
	})
	for _, t := range tasks {
		list.Tasks = append(list.Tasks, *t)
	}
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
