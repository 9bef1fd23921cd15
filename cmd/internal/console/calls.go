package console

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// running returns the calls that the workers run now.
func (c *Console) running(r *http.Request) (any, error) {
	calls, err := task.AllRunning(r.Context(), c.bus)
	if err != nil {
		return nil, err
	}
	return map[string]any{"running": calls}, nil
}

// maxWaiting is the most calls of a queue in the list of waiting calls.
const maxWaiting = 25

// waiting returns the first calls that wait in each queue.
func (c *Console) waiting(r *http.Request) (any, error) {
	queues, err := status.Queues(r.Context(), c.bus)
	if err != nil {
		return nil, err
	}
	calls := []task.WaitingCall{}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		if queues[name].NumPending == 0 {
			continue
		}
		waiting, err := task.ListWaiting(r.Context(), c.bus, name, maxWaiting)
		if err != nil {
			return nil, err
		}
		calls = append(calls, waiting...)
	}
	return map[string]any{"waiting": calls}, nil
}

// callDetails is one call with its stored events.
type callDetails struct {
	Task task.Task `json:"task"`
	// Results are its result and, if it is async, its completion.
	Results []tools.ResultEvent `json:"results"`
}

var showCall = rpc.Define("showCall", "", "Show a call with its stored events.", func(ctx context.Context, env rpc.Env, k tools.CallKey) (details callDetails, err error) {
	details.Results = []tools.ResultEvent{}
	if details.Task, err = rpc.GetTask.Here(ctx, env.Bus, k.Session, rpc.TaskRequest{ID: k.ID}); err != nil {
		return details, err
	}
	stored, err := task.ReadResults(ctx, env.Bus, tools.TokenOf(k.Session), tools.TokenOf(k.ID))
	for _, event := range stored {
		details.Results = append(details.Results, event.ResultEvent)
	}
	return details, err
})
