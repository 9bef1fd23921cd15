package worker

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// answerOffers answers a tools.OfferQuery on <prefix>.rpc.offer with a tools.Offer.
// The worker does not answer if the query does not match it or ctx has ended.
func (w *Worker) answerOffers(ctx context.Context) (stop func(), err error) {
	return task.AnswerAll(w.bus, w.log, w.bus.RPC("offer"), func(msg *nats.Msg) any {
		var q tools.OfferQuery
		if len(msg.Data) > 0 && json.Unmarshal(msg.Data, &q) != nil || ctx.Err() != nil {
			return nil
		}
		offer, ok := w.offer(q)
		if !ok {
			return nil
		}
		if body, err := bus.Encode(offer); err == nil && len(body) > int(w.bus.Conn().MaxPayload()) {
			for i := range offer.Tools {
				offer.Tools[i].Parameters = nil // the client can query each tool
			}
		}
		return offer
	})
}

// offer returns the tools that match a query; ok is false if the query does not
// match this worker.
func (w *Worker) offer(q tools.OfferQuery) (o tools.Offer, ok bool) {
	o = tools.Offer{Worker: w.cfg.Name, Queues: w.cfg.Queues, Tools: []tools.OfferedTool{}}
	if q.Queue != "" && !slices.Contains(w.cfg.Queues, q.Queue) {
		return o, false
	}
	found := q.Tool == ""
	for _, def := range w.registry.Definitions() {
		if q.Tool != "" && q.Tool != def.Name {
			continue
		}
		found = true
		if !q.Brief {
			o.Tools = append(o.Tools, tools.OfferedTool{Name: def.Name, Description: def.Description, Effect: def.Effect, Parameters: def.Parameters})
		}
	}
	return o, found
}

// During a rolling update, or if workers of a queue offer different tools, a worker may get
// a call of a tool that only another one has.

const (
	// offerTimeout is how long another worker may take to say that it has a tool. A call that nobody
	// claims ends for good, and the other worker may be on a busy machine.
	offerTimeout = 2 * time.Second
	// maxHandOn is the longest pause before the call is delivered again.
	maxHandOn = time.Second
)

// lacksTool reports whether this worker cannot run a call that another one may run.
func (w *Worker) lacksTool(a *attempt) bool {
	return a.Raw == nil && a.Invalid == nil && a.Tool.Name == ""
}

// handOnUnknown returns the verdict that hands a call whose tool this worker lacks to another worker
// of the queue that has it, or that may be back soon and have it; nil if there is none. While it asks, the call uses no
// slot: no tool runs, and calls of a tool that nobody has would keep the others from running.
func (w *Worker) handOnUnknown(ctx context.Context, a *attempt) error {
	if !w.lacksTool(a) {
		return nil
	}
	defer w.results.slotless.release(a.Delivery)()
	if offered, err := w.isOffered(ctx, a); err != nil || !offered && !w.awaitsOthers() {
		return err
	}
	w.log.Debug().Str("call", a.Key.ID).Str("session", a.Key.Session).Str("tool", a.Call.Tool).Msg("handing the call to a worker that has the tool")
	return handOn(min(50*time.Millisecond<<min(a.Attempt, 10), maxHandOn))
}

// isOffered reports whether another worker of the queue has the tool of a call.
func (w *Worker) isOffered(ctx context.Context, a *attempt) (bool, error) {
	return task.IsOffered(ctx, w.bus, tools.OfferQuery{Queue: a.Queue, Tool: a.Call.Tool}, offerTimeout)
}

// awaitsOthers reports whether workers that lost the server may not be connected again yet.
func (w *Worker) awaitsOthers() bool {
	if time.Now().Before(w.locator.OthersBackBy) {
		return true
	}
	reconnected := w.reconnected.Load()
	return reconnected != nil && time.Since(*reconnected) < returnTime
}

// noteReconnects notes when this worker is connected again, until ctx ends.
func (w *Worker) noteReconnects(ctx context.Context) {
	connected := w.bus.Conn().StatusChanged(nats.CONNECTED)
	defer w.bus.Conn().RemoveStatusListener(connected)
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			now := time.Now()
			w.reconnected.Store(&now)
		}
	}
}
