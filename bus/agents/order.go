package agents

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// firstPrompts is how many prompts a run looks at before it reads all of them: most wait for one of these.
const firstPrompts = 16

// earlier yields the prompts of a session that were accepted before a run: those in the stream of
// calls, and parked ones. Some may have ended.
func (c busCaller) earlier(ctx context.Context, session, run string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		orders, err := c.queued(ctx, session, run, 1)
		if err == nil && orders[run] > 0 {
			var first map[string]uint64
			if first, err = c.queued(ctx, session, "*", firstPrompts); err == nil && !yieldEarlier(first, run, orders[run], yield) {
				return
			}
		}
		if err == nil {
			orders, err = c.orders(ctx, session)
		}
		if err != nil {
			yield("", err)
			return
		}
		yieldEarlier(orders, run, orders[run], yield)
	}
}

// yieldEarlier yields the prompts before that of a run with an order, in their order. It returns false if nobody wants more.
func yieldEarlier(orders map[string]uint64, run string, own uint64, yield func(string, error) bool) bool {
	for _, id := range slices.SortedFunc(maps.Keys(orders), func(a, b string) int { return cmp.Compare(orders[a], orders[b]) }) {
		if id != run && (own == 0 || orders[id] < own) && !yield(id, nil) {
			return false
		}
	}
	return true
}

// queued returns the orders of the first prompts of a session in the stream of calls; limit 0 means all.
func (c busCaller) queued(ctx context.Context, session, run string, limit int) (map[string]uint64, error) {
	orders := map[string]uint64{}
	for m, err := range c.bus.Read(ctx, bus.Calls, bus.Query{Subject: c.bus.Call("*", agent.AgentTool, session, run), Limit: limit}) {
		if err != nil {
			return nil, err
		}
		_, invalid := tools.DecodeCall(m.Body)
		if _, answered := errors.AsType[*tools.Error](invalid); invalid != nil && !answered {
			continue // it becomes a dead letter without a result, and may stay here for long
		}
		if subject, ok := c.bus.SplitCall(m.Subject); ok {
			orders[subject.ID] = m.Order()
		}
	}
	return orders, nil
}

// orders returns the orders of the prompts of a session that are in the stream of calls or parked. While
// a call moves between the two, its order is unknown, and 0: it counts as earlier than all, and if it is the
// run's own, all others do. The next look finds it.
func (c busCaller) orders(ctx context.Context, session string) (map[string]uint64, error) {
	since, err := task.ServerTime(ctx, c.bus)
	if err != nil {
		return nil, err
	}
	orders, err := c.queued(ctx, session, "*", 0) // one that was published again may be the last one
	if err != nil {
		return nil, err
	}
	moving, err := task.ListMoving(ctx, c.bus, session, since)
	if err != nil {
		return nil, err
	}
	for _, r := range moving {
		id := r.Key().ID
		if _, found := orders[id]; r.Parked == nil && !found {
			orders[id] = 0
		} else if r.Parked != nil && r.Parked.Call.Tool == agent.AgentTool {
			orders[id] = r.Parked.Order
		}
	}
	return orders, nil
}
