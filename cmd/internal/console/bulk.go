package console

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// selection is the body of a request that changes many dead letters or calls: the named ones, or
// with All those that match.
type selection struct {
	Numbers []uint64        `json:"numbers"`
	Calls   []tools.CallKey `json:"calls"`
	All     bool            `json:"all"`
	Kind    string          `json:"kind"`
	Text    string          `json:"text"`
	// After is the next of the answer before. Until is the newest dead letter that the user saw:
	// one that fails again is not retried for ever.
	After uint64 `json:"after"`
	Until uint64 `json:"until"`
}

// changes is the answer.
type changes struct {
	Changed int    `json:"changed"`
	Failed  int    `json:"failed"`
	Error   string `json:"error,omitempty"` // the first one
	Next    uint64 `json:"next,omitempty"`  // if more may match
}

func (c *changes) count(err error) {
	if err == nil {
		c.Changed++
		return
	}
	c.Failed++
	if c.Error == "" {
		c.Error = tools.Excerpt(err.Error(), 500)
	}
}

// maxChanges is the most dead letters or calls that one request changes.
const maxChanges = 500

func decodeSelection(r *http.Request) (s selection, err error) {
	if err := decodeBody(r, &s); err != nil {
		return s, err
	}
	if n := len(s.Numbers) + len(s.Calls); n > maxChanges || n == 0 != s.All {
		return s, badArgument("want 1 to %d numbers or calls, or all", maxChanges)
	}
	return s, nil
}

// changeDeadLetters retries or removes dead letters, the oldest first.
func (c *Console) changeDeadLetters(r *http.Request) (any, error) {
	action := r.PathValue("action")
	if action != "retry" && action != "remove" {
		return nil, badArgument("unknown action %q; known are retry, remove", tools.Excerpt(action, 40))
	}
	s, err := decodeSelection(r)
	if err != nil {
		return nil, err
	}
	var letters []dead.Stored
	answer := &changes{}
	if s.All {
		letters, answer.Next, err = dead.ListPage(r.Context(), c.bus, dead.Query{Kind: s.Kind, Text: s.Text, After: s.After, Before: s.Until + 1, Limit: maxChanges})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(s.Numbers)
	for _, n := range s.Numbers {
		letter, err := dead.Get(r.Context(), c.bus, n)
		if err != nil && !errors.Is(err, dead.ErrNone) {
			return nil, err
		}
		if err != nil {
			answer.count(err)
			continue
		}
		letters = append(letters, letter)
	}
	rpc.ChangeLetters(r.Context(), c.bus, letters, action == "retry", func(_ dead.Stored, err error) { answer.count(err) })
	return answer, nil
}

// cancelAtOnce is how many calls are cancelled at the same time.
const cancelAtOnce = 16

// cancelCalls cancels calls that run, wait or are parked.
func (c *Console) cancelCalls(r *http.Request) (any, error) {
	s, err := decodeSelection(r)
	if err != nil {
		return nil, err
	}
	answer := &changes{}
	if s.All {
		text := strings.ToLower(s.Text)
		s.Calls, answer.Next, err = task.ListOpen(r.Context(), c.bus, s.After, maxChanges, func(t task.Task) bool {
			return strings.Contains(strings.ToLower(t.Tool+"\n"+t.Session+"\n"+t.ID), text)
		})
		if err != nil {
			return nil, err
		}
	}
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		slots = make(chan struct{}, cancelAtOnce)
	)
	for _, k := range s.Calls {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			_, err := rpc.CancelTask.Do(r.Context(), c.bus, k.Session, rpc.TaskRequest{ID: k.ID})
			mu.Lock()
			defer mu.Unlock()
			answer.count(err)
		})
	}
	group.Wait()
	return answer, nil
}
