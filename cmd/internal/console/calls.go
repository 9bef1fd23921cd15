package console

import (
	"maps"
	"net/http"
	"slices"
	"time"

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
	queues, err := status.Consumers(r.Context(), c.bus, c.bus.WorkerConsumer(""))
	if err != nil {
		return nil, err
	}
	calls := []task.WaitingCall{}
	unserved, err := status.Unserved(r.Context(), c.bus, func(queue string) bool { return queues[queue] != nil })
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(unserved))
	for name, info := range queues {
		if info.NumPending > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		waiting, err := task.ListWaiting(r.Context(), c.bus, name, maxWaiting)
		if err != nil {
			return nil, err
		}
		calls = append(calls, waiting...)
	}
	return map[string]any{"waiting": calls}, nil
}

// maxPage is the most calls in a page.
const maxPage = 500

// calls returns a page of the calls that have ended, newest first. The parameter last is a
// number of seconds before now.
func (c *Console) calls(r *http.Request) (any, error) {
	query := r.URL.Query()
	limit, err := number(r, "limit", 100, maxPage)
	if err != nil {
		return nil, err
	}
	before, err := sequence(r, "before")
	if err != nil {
		return nil, err
	}
	last, err := number(r, "last", 0, maxNumber/int64(time.Second))
	if err != nil {
		return nil, err
	}
	q := task.HistoryQuery{
		Tool: query.Get("tool"), Outcome: tools.Outcome(query.Get("outcome")), Text: query.Get("text"),
		Before: before, Limit: int(limit),
	}
	if last > 0 {
		q.Since = time.Now().Add(-time.Duration(last) * time.Second)
	}
	if session := query.Get("session"); session != "" {
		q.Session = tools.TokenOf(session)
	}
	return task.ReadHistory(r.Context(), c.bus, q)
}

// callDetails is one call with its stored events.
type callDetails struct {
	Task task.Task `json:"task"`
	// Results are its result and, if it is async, its completion.
	Results []tools.ResultEvent `json:"results"`
}

func (c *Console) call(r *http.Request) (any, error) {
	k := callOf(r)
	t, err := rpc.GetTask.Here(r.Context(), c.bus, k.Session, rpc.TaskRequest{ID: k.ID})
	if err != nil {
		return nil, err
	}
	stored, err := task.ReadResults(r.Context(), c.bus, k.Session, k.ID)
	if err != nil {
		return nil, err
	}
	details := callDetails{Task: t, Results: []tools.ResultEvent{}}
	for _, event := range stored {
		details.Results = append(details.Results, event.ResultEvent)
	}
	return details, nil
}

// cancel ends a call. A worker does it, because the role of the page may not publish results.
func (c *Console) cancel(r *http.Request) (any, error) {
	k := callOf(r)
	return rpc.CancelTask.Do(r.Context(), c.bus, k.Session, rpc.TaskRequest{ID: k.ID})
}
