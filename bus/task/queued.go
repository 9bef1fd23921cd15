package task

import (
	"context"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// maxWaiting is how many waiting calls List looks at.
const maxWaiting = 5000

// unsettledCall is a call in the calls stream: no worker has settled it yet.
type unsettledCall struct {
	call tools.Call
	id   string // its token
	at   time.Time
	// sequence is that of its message.
	sequence uint64
	// delivered is set if the server delivered it to a worker at least once.
	delivered bool
	raw       bool // a result that waits to be offloaded
}

// sameID is how many messages with one id unsettled looks at.
const sameID = 100

// unsettled returns the calls and raw results with an id that no worker has settled. There are several if a client submitted
// the call to several queues; those that a worker has come first.
func unsettled(ctx context.Context, b *bus.Bus, session, id string) (calls []unsettledCall, err error) {
	u := newUnsettledReader(b)
	for m, err := range b.Read(ctx, bus.Calls, bus.Query{Subject: b.CallsOf(session, id), Limit: sameID}) {
		if err != nil {
			return calls, err
		}
		if c, ok := u.take(ctx, m); ok && c.delivered {
			calls = slices.Insert(calls, 0, c)
		} else if ok {
			calls = append(calls, c)
		}
	}
	return calls, nil
}

// unsettledReader selects the unsettled ones of the stored calls.
type unsettledReader struct {
	b        *bus.Bus
	progress map[string]progress // of each queue
}

func newUnsettledReader(b *bus.Bus) *unsettledReader {
	return &unsettledReader{b, map[string]progress{}}
}

// take returns a stored call; ok is false if it is settled.
func (u *unsettledReader) take(ctx context.Context, m bus.Stored) (c unsettledCall, ok bool) {
	subject, _ := u.b.SplitCall(m.Subject)
	call, err := tools.DecodeCall(m.Body)
	if err != nil {
		call = tools.Call{}
	}
	_ = Identify(&call, subject) // the worker reports what is wrong
	call.Tool, call.Args = subject.Tool, nil
	p, known := u.progress[subject.Queue]
	if !known {
		if p, err = readProgress(ctx, u.b, subject.Queue); err != nil {
			p.delivered = m.Sequence // perhaps delivered; the caller asks the workers
		}
		u.progress[subject.Queue] = p
	}
	return unsettledCall{call: call, id: subject.ID, at: m.At, sequence: m.Sequence, delivered: m.Sequence <= p.delivered, raw: subject.Raw},
		m.Sequence > p.settled
}

// progress is how far the consumer of a queue is, in sequences of the calls stream: the last
// message that was delivered, and the last one of those without an unsettled one before.
type progress struct{ delivered, settled uint64 }

// readProgress returns the progress of a queue. It is zero if no worker has consumed yet.
func readProgress(ctx context.Context, b *bus.Bus, queue string) (progress, error) {
	c := b.WorkerConsumer(queue)
	info, ok, err := b.ConsumerInfo(ctx, c)
	if !ok || err != nil {
		return progress{}, err
	}
	p := progress{info.Delivered.Stream, info.AckFloor.Stream}
	if c.Passes(info.Config) { // its floor may have passed calls that no worker has settled
		p.settled = 0
	}
	return p, nil
}

// WaitingCall is a call that the server has delivered to no worker.
type WaitingCall struct {
	Task
	Queue string `json:"queue"`
}

// ListWaiting returns the first calls of all sessions that wait in a queue, at most limit,
// oldest first.
func ListWaiting(ctx context.Context, b *bus.Bus, queue string, limit int) ([]WaitingCall, error) {
	waiting := []WaitingCall{}
	p, err := readProgress(ctx, b, queue)
	if err != nil {
		return nil, err
	}
	for m, err := range b.Read(ctx, bus.Calls, bus.Query{Subject: b.Call(queue, "*", "*", "*"), From: p.delivered + 1, Limit: limit}) {
		if err != nil {
			return nil, err
		}
		if subject, ok := b.SplitCall(m.Subject); ok {
			t := Task{ID: subject.ID, Session: subject.Session, Tool: tools.Excerpt(subject.Tool, 80), State: Queued, QueuedAt: m.At}
			waiting = append(waiting, WaitingCall{t, queue})
		}
	}
	return waiting, nil
}

// maxOpenScan limits the stored calls that one ListOpen looks at.
const maxOpenScan = 4000

// afterParked marks the after of a parked call: the rest is the revision of its record. JavaScript
// has exact integers up to twice as much.
const afterParked = 1 << 52

// movedLately is longer than a client takes to cancel the calls of a page.
const movedLately = 10 * time.Minute

// ListOpen returns calls of all sessions that run, wait or are parked, and that match. It first
// returns those that run, of which workers report a bounded number, then those in the stream without a
// final result, up to limit calls; next is the after with which it continues, or 0. The last ones are those
// that are parked, or that were published again lately: a call may move while or after the stream is read.
func ListOpen(ctx context.Context, b *bus.Bus, after uint64, limit int, match func(Task) bool) (calls []tools.CallKey, next uint64, err error) {
	add := func(t Task) {
		if k := (tools.CallKey{Session: t.Session, ID: t.ID}); match(t) && !slices.Contains(calls, k) {
			calls = append(calls, k)
		}
	}
	if after == 0 {
		running, err := AllRunning(ctx, b)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range running {
			add(Task{Session: r.Session, ID: r.ID, Tool: r.Tool})
		}
	}
	if after&afterParked == 0 {
		waiting, scanned := newUnsettledReader(b), 0
		for m, err := range b.Read(ctx, bus.Calls, bus.Query{From: after + 1}) {
			if err != nil {
				return nil, 0, err
			}
			if subject, ok := b.SplitCall(m.Subject); !ok || subject.Raw {
				// a result that waits to be offloaded
			} else if c, ok := waiting.take(ctx, m); ok {
				t := Task{Session: c.call.SessionToken(), ID: c.id, Tool: c.call.Tool}
				if c.delivered && match(t) { // a worker that has died or does not answer may have it, and does not report it
					stored, err := ReadResults(ctx, b, t.Session, t.ID)
					if ok = !Ended(stored); err != nil {
						return nil, 0, err
					}
				}
				if ok {
					add(t)
				}
			}
			if scanned++; len(calls) >= limit || scanned >= maxOpenScan {
				return calls, m.Sequence, nil
			}
		}
		after = afterParked
	}
	now, err := ServerTime(ctx, b)
	if err != nil {
		return nil, 0, err
	}
	moving, err := ListMoving(ctx, b, "*", now.Add(-movedLately))
	if err != nil {
		return nil, 0, err
	}
	for _, r := range moving {
		if afterParked|r.revision <= after {
			continue
		}
		if len(calls) >= limit {
			return calls, after, nil
		}
		after = afterParked | r.revision
		if t, open, err := openOf(ctx, b, r); err != nil {
			return nil, 0, err
		} else if open {
			add(t)
		}
	}
	return calls, 0, nil
}

// openOf returns the open call of a record. One that is not parked any more may be in the stream again.
func openOf(ctx context.Context, b *bus.Bus, r Record) (t Task, open bool, err error) {
	t = Task{Session: r.key.Session, ID: r.key.ID}
	for range 3 { // it may be parked again
		if r.Parked != nil {
			t.Tool = r.Parked.Call.Tool
			return t, true, nil
		}
		if !r.Cancelled.IsZero() {
			break
		}
		p, err := look(ctx, b, t.Session, t.ID)
		if err != nil || Ended(p.stored) {
			return t, false, err
		}
		if len(p.queued) > 0 {
			t.Tool = p.queued[0].call.Tool
			return t, !p.queued[0].raw, nil
		}
		r = p.record
	}
	return t, false, nil
}
