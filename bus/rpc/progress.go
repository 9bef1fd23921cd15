package rpc

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// WatchProgress calls show for each progress event of a call, one at a time. stop shows
// the events that have arrived, and ends the watch. A worker publishes the last event
// before the result, so a caller that has the result and calls stop misses none.
func WatchProgress(b *bus.Bus, call tools.Call, show func(tools.ProgressEvent)) (stop func(), err error) {
	events := make(chan *nats.Msg, 4096)
	sub, err := b.Conn().ChanSubscribe(b.Progress(call.SessionToken(), call.IDToken()), events)
	if err != nil {
		return nil, fmt.Errorf("watch the progress of call %q: %w", call.ID, err)
	}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case msg := <-events:
				var event tools.ProgressEvent
				if json.Unmarshal(msg.Data, &event) == nil { // otherwise it is not from a worker
					show(event)
				}
			case <-ended:
				if len(events) == 0 {
					return
				}
			}
		}
	})
	return func() {
		close(ended)
		watching.Wait()
		_ = sub.Unsubscribe() // fails only if the connection is closed
	}, nil
}
