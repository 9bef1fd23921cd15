package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// jointReads joins the reads of the last messages of a stream that wait at the same time. Workers
// and clients look for earlier results of new calls, so nearly all reads find none, and one request
// finds that out for all of them. A request for each read would cost a tenth of a short call.
type jointReads struct {
	mu   sync.Mutex
	next map[string]*jointRead    // by stream; others may join it
	busy map[string]chan struct{} // by stream; has an element while a request is on its way
}

func newJointReads() *jointReads {
	return &jointReads{next: map[string]*jointRead{}, busy: map[string]chan struct{}{}}
}

type jointRead struct {
	subjects []string
	done     chan struct{}
	none     bool // after done: none of the subjects has a message
}

// maxJoint limits the subjects of one request. The server allows 1,024.
const maxJoint = 256

// last returns the last message on a subject, or ErrMsgNotFound.
func (r *jointReads) last(ctx context.Context, api jsapi.API, stream, subject string) (jsapi.Message, error) {
	joint, busy := r.join(stream, subject)
	if busy != nil {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
		case <-ctx.Done(): // each of the others reads alone
		}
		if r.close(stream, joint); len(joint.subjects) > 1 {
			joint.none = api.NoneStored(ctx, stream, joint.subjects)
		}
		close(joint.done)
	}
	select {
	case <-joint.done:
	case <-ctx.Done():
		return jsapi.Message{}, ctx.Err()
	}
	if joint.none {
		return jsapi.Message{}, jetstream.ErrMsgNotFound
	}
	return api.GetFromAny(ctx, stream, jsapi.Get{LastBySubject: subject})
}

// join adds a subject to the next request for a stream. busy is not nil if the caller sends it.
func (r *jointReads) join(stream, subject string) (joint *jointRead, busy chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if joint = r.next[stream]; joint == nil || len(joint.subjects) == maxJoint {
		joint = &jointRead{done: make(chan struct{})}
		r.next[stream] = joint
		if busy = r.busy[stream]; busy == nil {
			busy = make(chan struct{}, 1)
			r.busy[stream] = busy
		}
	}
	joint.subjects = append(joint.subjects, subject)
	return joint, busy
}

// close lets nobody else join.
func (r *jointReads) close(stream string, joint *jointRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next[stream] == joint {
		delete(r.next, stream)
	}
}
