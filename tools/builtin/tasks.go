package builtin

import (
	"context"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Tasks shows and cancels the background work of sessions.
type Tasks interface {
	// List returns the background tasks of a session, oldest first. more is true if there may be others.
	List(ctx context.Context, session string) (all []Task, more bool, err error)
	// Get returns a task with its result, if it has one. A *tools.Error with CodeNotFound
	// means that the session has no such task.
	Get(ctx context.Context, session, id string) (Task, error)
	// Cancel cancels a task and returns it. A *tools.Error with CodeInvalidArguments means
	// that the task has ended.
	Cancel(ctx context.Context, session, id string) (Task, error)
}

// Task is one background task.
type Task struct {
	// Summary is one line: the state, the tool, the time and the progress.
	Summary string
	// Result is the result of an ended task. It may be a reference to an artifact.
	Result string
	// Ended is set if the task is not queued, running or waiting any more.
	Ended bool
}

type tasksArgs struct {
	Action string `json:"action" jsonschema:"list, get or cancel"`
	ID     string `json:"id,omitempty" jsonschema:"the id of the task, for get and cancel"`
}

// maxTasks is how many tasks the list shows. It prefers those that have not ended, and then
// the newest.
const maxTasks = 50

// NewTasks returns the tasks tool, with which a model manages the background work of its
// session.
func NewTasks(tasks Tasks) tools.Tool {
	return tools.MustTool("tasks",
		"Manage the background tasks of this conversation, such as those of spawn: list them with their states, get one with its result, or cancel one.",
		func(ctx context.Context, call tools.Call, args tasksArgs) *tools.Result {
			text, err := manageTasks(ctx, tasks, call.SessionToken(), args)
			if err != nil {
				return tools.SilentFailure(err)
			}
			return tools.SilentResult(text)
		}).WithEffect(tools.Keyed) // cancelling twice is harmless
}

func manageTasks(ctx context.Context, tasks Tasks, session string, args tasksArgs) (string, error) {
	id := tools.TokenOf(args.ID)
	switch {
	case args.Action != "list" && args.Action != "get" && args.Action != "cancel":
		return "", tools.Errorf(tools.CodeInvalidArguments, "unknown action %q; known are list, get, cancel", tools.Excerpt(args.Action, 80))
	case args.Action != "list" && args.ID == "":
		return "", tools.Errorf(tools.CodeInvalidArguments, "%s needs the id of a task; list shows the ids", args.Action)
	case args.Action == "get":
		t, err := tasks.Get(ctx, session, id)
		if err != nil || t.Result == "" {
			return t.Summary, err
		}
		return t.Summary + "\nResult:\n" + t.Result, nil
	case args.Action == "cancel":
		t, err := tasks.Cancel(ctx, session, id)
		return t.Summary, err
	}
	all, more, err := tasks.List(ctx, session)
	if err != nil {
		return "", err
	}
	return listTasks(all, more), nil
}

func listTasks(all []Task, more bool) string {
	if len(all) == 0 && !more {
		return "This conversation has no background tasks."
	}
	omit := max(len(all)-maxTasks, 0)
	var lines []string
	omitted := 0
	for i, t := range all {
		if omitted < omit && (t.Ended || len(all)-i <= omit-omitted) {
			omitted++
			continue
		}
		lines = append(lines, t.Summary)
	}
	if omitted > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more)", omitted))
	}
	if more {
		lines = append(lines, "(This conversation has too many calls to list them all: other tasks may be missing. get finds each by its id.)")
	}
	return strings.Join(lines, "\n")
}
