package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxWaiting and maxWaitingBytes bound how many calls are looked through
	// that no worker has settled.
	maxWaiting      = 5000
	maxWaitingBytes = 32 << 20
)

// unsettledCall is a call on its stream: it waits, or a worker has it, or one
// had it and died.
type unsettledCall struct {
	call tools.Call
	id   string // its token
	at   time.Time
	// delivered is set if a worker had it at least once.
	delivered bool
}

// unsettled returns the calls of a session, or the one of an id, that no worker
// has settled, oldest first, and whether those are all: the subjects of calls do
// not name their sessions, so that all calls have to be looked through.
func unsettled(ctx context.Context, b *bus.Bus, session, id string) (calls []unsettledCall, all bool, err error) {
	delivered := map[string]uint64{} // of each queue, the last sequence that a worker had
	all, err = b.Scan(ctx, bus.Calls, b.Call("*", "*"), maxWaiting, maxWaitingBytes, func(m bus.Stored) bool {
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
				last = m.Sequence // then perhaps; asking will show
			}
			delivered[queue] = last
		}
		calls = append(calls, unsettledCall{call: call, id: call.IDToken(), at: m.At, delivered: m.Sequence <= last})
		return id == ""
	})
	return calls, all, err
}

// lastDelivered returns the sequence of the last call that a worker of the queue
// got.
func lastDelivered(ctx context.Context, b *bus.Bus, queue string) (uint64, error) {
	c := b.WorkerConsumer(queue)
	consumer, err := b.JetStream().Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil // no worker ever served it
	}
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().Delivered.Stream, nil
}
