package rpc

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus/task"
)

// TaskRequest holds the arguments of the functions for tasks.
type TaskRequest struct {
	// ID is the id of the call or its token, for get and cancel.
	ID string `json:"id,omitempty"`
	// Page is for list; the zero value lists all, up to 500 tasks.
	task.Page
}

// The operations on the calls of a session.
var (
	ListTasks = Define("listTasks", "task.SESSION.list", "List the calls of a session.",
		func(ctx context.Context, env Env, in TaskRequest) (task.Listing, error) {
			if in.Page != (task.Page{}) {
				return task.ListPage(ctx, env.Bus, env.session(), in.Page)
			}
			return task.List(ctx, env.Bus, env.session())
		}).alone()
	GetTask = Define("getTask", "task.SESSION.get", "Get the state of a call.",
		func(ctx context.Context, env Env, in TaskRequest) (none task.Task, err error) {
			id, err := tokenOf(in.ID, "task")
			if err != nil {
				return none, err
			}
			return task.Get(ctx, env.Bus, env.session(), id)
		}).alone()
	CancelTask = Define("cancelTask", "task.SESSION.cancel", "Cancel a call.",
		func(ctx context.Context, env Env, in TaskRequest) (none task.Task, err error) {
			id, err := tokenOf(in.ID, "task")
			if err != nil {
				return none, err
			}
			var t task.Task
			err = env.Bus.WatchDenial(ctx, env.Bus.Result(env.session(), id), func(ctx context.Context) (err error) {
				t, err = task.Cancel(ctx, env.Bus, env.session(), id, "a client")
				return err
			})
			return t, err
		}).Changing().alone()
	// ListEnded lists the calls of all sessions that have ended.
	ListEnded = Define("listEnded", "", "List the calls that have ended.", OnBus(task.ReadHistory))
)
