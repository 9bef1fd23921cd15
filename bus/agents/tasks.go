package agents

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// Tasks shows the background tasks of sessions to the tasks tool: async calls, and calls
// that wait for an approval.
type Tasks struct{ Bus *bus.Bus }

func (b Tasks) List(ctx context.Context, session string) (tasks []builtin.Task, more bool, err error) {
	listing, err := task.List(ctx, b.Bus, session)
	if err != nil {
		return nil, false, err
	}
	for _, t := range listing.Tasks {
		if isBackground(t) {
			tasks = append(tasks, shownTask(t))
		}
	}
	return tasks, listing.Omitted > 0 || listing.Incomplete, nil
}

func isBackground(t task.Task) bool { return t.Async || t.State == task.InputRequired }

func shownTask(t task.Task) builtin.Task {
	return builtin.Task{Summary: t.Text(), Ended: !t.EndedAt.IsZero()}
}

func (b Tasks) Get(ctx context.Context, session, id string) (builtin.Task, error) {
	t, err := task.Get(ctx, b.Bus, session, id)
	if err != nil {
		return builtin.Task{}, err
	}
	shown := shownTask(t)
	stored, err := task.ReadResults(ctx, b.Bus, session, id)
	if err == nil && task.Ended(stored) {
		shown.Result = stored[len(stored)-1].ForLLM
	}
	return shown, err
}

// Cancel cancels a background task. An agent must not cancel its own run.
func (b Tasks) Cancel(ctx context.Context, session, id string) (builtin.Task, error) {
	t, err := task.Get(ctx, b.Bus, session, id)
	if err != nil {
		return builtin.Task{}, err
	}
	if !isBackground(t) && t.EndedAt.IsZero() {
		return builtin.Task{}, tools.Errorf(tools.CodeInvalidArguments, "%q is not a background task", tools.Excerpt(id, 80))
	}
	if t.State == task.Cancelled { // by an earlier attempt of this call, which may not have done all of it
		return shownTask(t), task.CancelOpen(ctx, b.Bus, tools.CallKey{Session: session, ID: id}, "the agent")
	}
	t, err = task.Cancel(ctx, b.Bus, session, id, "the agent")
	return shownTask(t), err
}
