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

// unsettled returns the calls of a session, or the one with an id, that no worker has
// settled, oldest first, and whether these are all.
func unsettled(ctx context.Context, b *bus.Bus, session, id string) (calls []unsettledCall, all bool, err error) {
	anyID := id
	if id == "" {
		anyID = "*"
	}
	u := newUnsettledReader(b)
	read, size := 0, 0
	for m, err := range b.Read(ctx, bus.Calls, bus.Query{Subject: b.Call("*", "*", session, anyID)}) {
		if err != nil {
			return calls, false, err
		}
		c, ok := u.take(ctx, m)
		if ok {
			calls = append(calls, c)
		}
		read, size = read+1, size+len(m.Body)
		if ok && id != "" || read >= maxWaiting || size >= maxWaitingBytes {
			return calls, false, nil
		}
	}
	return calls, true, nil
}

// unsettledReader selects the unsettled ones of the stored calls.
type unsettledReader struct {
	b        *bus.Bus
	progress map[string]bus.Progress // of each queue
}

func newUnsettledReader(b *bus.Bus) *unsettledReader {
	return &unsettledReader{b, map[string]bus.Progress{}}
}

// take returns a stored call; ok is false if it is settled.
func (u *unsettledReader) take(ctx context.Context, m bus.Stored) (c unsettledCall, ok bool) {
	subject, _ := u.b.SplitCall(m.Subject)
	call, err := tools.DecodeCall(m.Body)
	if err != nil {
		return c, false // it will be a dead letter
	}
	_ = Identify(&call, subject) // the worker reports what is wrong
	call.Tool, call.Args = subject.Tool, nil
	p, known := u.progress[subject.Queue]
	if !known {
		if p, err = bus.ReadProgress(ctx, u.b, u.b.WorkerConsumer(subject.Queue)); err != nil {
			p.Delivered = m.Sequence // perhaps delivered; the caller asks the workers
		}
		u.progress[subject.Queue] = p
	}
	return unsettledCall{call: call, id: subject.ID, at: m.At, delivered: m.Sequence <= p.Delivered}, m.Sequence > p.Settled
}
