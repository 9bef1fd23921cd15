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

// answerOffers tells who asks on <prefix>.rpc.offer what this worker serves: a
// tools.OfferQuery is answered with a tools.Offer. Workers that a question is
// not for are silent, and so is one that takes no more calls.
func (w *Worker) answerOffers(ctx context.Context) (stop func(), err error) {
	sub, err := w.bus.Conn().Subscribe(w.bus.RPC("offer"), func(msg *nats.Msg) {
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
				offer.Tools[i].Parameters = nil // to be asked for one by one
			}
			body, err = bus.Encode(offer)
		}
		if err == nil {
			err = msg.Respond(body)
		}
		if err != nil {
			w.log.Warn().Err(err).Msg("cannot tell what is served here") // it is asked again
		}
	})
	if err != nil {
		return nil, fmt.Errorf("answer what is served here: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // gone with the connection otherwise
}

// offer answers a question, if it is for this worker.
func (w *Worker) offer(q tools.OfferQuery) (tools.Offer, bool) {
	o := tools.Offer{Worker: w.cfg.Name, Queues: w.cfg.Queues, Tools: []tools.OfferedTool{}}
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
