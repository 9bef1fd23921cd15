package console

import (
	"context"
	"errors"
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
	Action  string          `json:"action"` // retry or remove, of dead letters
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

func (s selection) check() error {
	if n := len(s.Numbers) + len(s.Calls); n > maxChanges || n == 0 != s.All {
		return badArgument("want 1 to %d numbers or calls, or all", maxChanges)
	}
	return nil
}

var (
	changeDead  = rpc.Define("changeDeadLetters", "", "Retry or remove dead letters, the oldest first.", changeDeadLetters).Changing()
	cancelCalls = rpc.Define("cancelCalls", "", "Cancel calls that run, wait or are parked.", cancelSelected).Changing()
)

func changeDeadLetters(ctx context.Context, env rpc.Env, s selection) (answer *changes, err error) {
	if s.Action != "retry" && s.Action != "remove" {
		return nil, badArgument("unknown action %q; known are retry, remove", tools.Excerpt(s.Action, 40))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	var letters []dead.Stored
	answer = &changes{}
	if s.All {
		page, err := dead.ListPage(ctx, env.Bus, dead.Query{Kind: s.Kind, Text: s.Text, After: s.After, Before: s.Until + 1, Limit: maxChanges})
		if err != nil {
			return nil, err
		}
		letters, answer.Next = page.Letters, page.Next
	}
	slices.Sort(s.Numbers)
	for _, n := range slices.Compact(s.Numbers) {
		letter, err := dead.Get(ctx, env.Bus, n)
		if err != nil && !errors.Is(err, dead.ErrNone) {
			return nil, err
		}
		if err != nil {
			answer.count(err)
			continue
		}
		letters = append(letters, letter)
	}
	rpc.ChangeLetters(ctx, env.Bus, letters, s.Action == "retry", func(_ dead.Stored, err error) { answer.count(err) })
	return answer, nil
}

// cancelAtOnce is how many calls are cancelled at the same time.
const cancelAtOnce = 16

func cancelSelected(ctx context.Context, env rpc.Env, s selection) (answer *changes, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	answer = &changes{}
	if s.All {
		text := strings.ToLower(s.Text)
		s.Calls, answer.Next, err = task.ListOpen(ctx, env.Bus, s.After, maxChanges, func(t task.Task) bool {
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
			_, err := rpc.CancelTask.Do(ctx, env.Bus, k.Session, rpc.TaskRequest{ID: k.ID})
			mu.Lock()
			defer mu.Unlock()
			if !s.All || !task.IsOver(err) { // nobody chose one that has ended since it was listed
				answer.count(err)
			}
		})
	}
	group.Wait()
	return answer, nil
}
