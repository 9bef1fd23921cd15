package task

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxWaiting and maxWaitingBytes bound how many calls unsettled looks at.
	maxWaiting      = 5000
	maxWaitingBytes = 32 << 20
)

// unsettledCall is a call in the calls stream: no worker has settled it yet.
type unsettledCall struct {
	call tools.Call
	id   string // its token
	at   time.Time
	// delivered is set if the server delivered it to a worker at least once.
	delivered bool
}

// unsettled returns the calls of a session, or the one with an id, that no worker
// has settled, oldest first, and whether these are all. It looks at the calls of
// all sessions, because their subjects do not contain the session.
func unsettled(ctx context.Context, b *bus.Bus, session, id string) (calls []unsettledCall, all bool, err error) {
	delivered := map[string]uint64{} // the last delivered sequence of each queue
	all, err = b.ScanDirect(ctx, bus.Calls, b.Call("*", "*"), maxWaiting, maxWaitingBytes, func(m bus.Stored) bool {
		call, err := tools.DecodeCall(m.Body)
		if err != nil {
			return true // it will be a dead letter
		}
		tokens := b.Split(m.Subject)
		queue, tool := tokens[1], tokens[2]
		if call.ID == "" {
			call.ID = m.ID
		}
		if call.Session == "" {
			call.Session = tools.DefaultSession
		}
		if call.SessionToken() != session || id != "" && call.IDToken() != id {
			return true
		}
		call.Tool, call.Args = tool, nil
		last, known := delivered[queue]
		if !known {
			if last, err = lastDelivered(ctx, b, queue); err != nil {
				last = m.Sequence // perhaps delivered; the caller asks the workers
			}
			delivered[queue] = last
		}
		calls = append(calls, unsettledCall{call: call, id: call.IDToken(), at: m.At, delivered: m.Sequence <= last})
		return id == ""
	})
	return calls, all, err
}

// lastDelivered returns the sequence of the last call that the server delivered to
// a worker of the queue.
func lastDelivered(ctx context.Context, b *bus.Bus, queue string) (uint64, error) {
	info, ok, err := b.ConsumerInfo(ctx, b.WorkerConsumer(queue))
	if !ok || err != nil {
		return 0, err // no worker has consumed the queue yet
	}
	return info.Delivered.Stream, nil
}
