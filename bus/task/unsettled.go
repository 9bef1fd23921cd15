package task

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxWaiting and maxWaitingBytes bound how many calls unsettled looks at in each of
	// the two streams.
	maxWaiting      = 5000
	maxWaitingBytes = 32 << 20
)

// unsettledCall is a call in one of the two streams of calls: no worker has settled it
// yet.
type unsettledCall struct {
	call tools.Call
	id   string // its token
	at   time.Time
	// delivered is set if the server delivered it to a worker at least once.
	delivered bool
}

// unsettled returns the calls of a session, or the one with an id, that no worker has
// settled, oldest first, and whether these are all. A call in the short form waits in the
// intake until a worker takes it; only its body names the session.
func unsettled(ctx context.Context, b *bus.Bus, session, id string) (calls []unsettledCall, all bool, err error) {
	anyID := id
	if id == "" {
		anyID = "*"
	}
	all = true
	for _, in := range []struct{ stream, subject string }{
		{bus.Calls, b.Call("*", "*", session, anyID)},
		{bus.Intake, b.ShortCall("*", "*")},
	} {
		u := newUnsettledReader(b, in.stream, session, id)
		more, err := b.ScanDirect(ctx, in.stream, in.subject, maxWaiting, maxWaitingBytes, func(m bus.Stored) bool {
			c, ok := u.take(ctx, m)
			if ok {
				calls = append(calls, c)
			}
			return !ok || id == ""
		})
		if err != nil {
			return calls, false, err
		}
		if all = all && more; id != "" && len(calls) > 0 {
			return calls, false, nil
		}
	}
	return calls, all, nil
}

// unsettledReader selects the unsettled calls of a session, or the one with an id.
type unsettledReader struct {
	b                   *bus.Bus
	stream, session, id string
	progress            map[string]bus.Progress // of each queue
}

func newUnsettledReader(b *bus.Bus, stream, session, id string) *unsettledReader {
	return &unsettledReader{b, stream, session, id, map[string]bus.Progress{}}
}

// take returns a stored call; ok is false if it is another one or settled.
func (u *unsettledReader) take(ctx context.Context, m bus.Stored) (c unsettledCall, ok bool) {
	subject, _ := u.b.SplitCall(m.Subject)
	call, ok := decodeUnsettled(subject, m)
	if !ok || call.SessionToken() != u.session || u.id != "" && call.IDToken() != u.id {
		return c, false
	}
	p, known := u.progress[subject.Queue]
	if !known {
		consumer := u.b.WorkerConsumer(subject.Queue)
		consumer.Stream = u.stream
		var err error
		if p, err = u.b.ConsumerProgress(ctx, consumer); err != nil {
			p.Delivered = m.Sequence // perhaps delivered; the caller asks the workers
		}
		u.progress[subject.Queue] = p
	}
	return unsettledCall{call: call, id: call.IDToken(), at: m.At, delivered: m.Sequence <= p.Delivered}, m.Sequence > p.Settled
}

// decodeUnsettled returns a stored call without its arguments; ok is false if a worker
// will reject it without a result.
func decodeUnsettled(subject bus.CallSubject, m bus.Stored) (tools.Call, bool) {
	call, err := tools.DecodeCall(m.Body)
	if err != nil {
		return call, false // it will be a dead letter
	}
	if call.ID == "" {
		call.ID = m.ID
		if subject.ID != "" {
			call.ID = subject.ID
		}
	}
	if call.Session == "" {
		call.Session = tools.DefaultSession
		if subject.Session != "" {
			call.Session = subject.Session
		}
	}
	call.Tool, call.Args = subject.Tool, nil
	return call, true
}
