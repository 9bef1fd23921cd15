package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// answerOffers answers a tools.OfferQuery on <prefix>.rpc.offer with a tools.Offer.
// The worker does not answer if the query does not match it or ctx has ended.
func (w *Worker) answerOffers(ctx context.Context) (stop func(), err error) {
	sub, err := w.bus.Conn().Subscribe(w.bus.RPC("offer"), func(msg *nats.Msg) {
		if !w.bus.IsInbox(msg.Reply) {
			return
		}
		var q tools.OfferQuery
		if len(msg.Data) > 0 && json.Unmarshal(msg.Data, &q) != nil || ctx.Err() != nil {
			return
		}
		offer, ok := w.offer(q)
		if !ok {
			return
		}
		body, err := bus.Encode(offer)
		if err == nil && len(body) > int(w.bus.Conn().MaxPayload()) {
			for i := range offer.Tools {
				offer.Tools[i].Parameters = nil // the client can query each tool
			}
			body, err = bus.Encode(offer)
		}
		if err == nil {
			err = msg.Respond(body)
		}
		if err != nil {
			w.log.Warn().Err(err).Msg("cannot answer an offer query") // clients ask again
		}
	})
	if err != nil {
		return nil, fmt.Errorf("answer offer queries: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is closed
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
