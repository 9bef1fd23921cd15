package bus

import (
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/internal/publisher"
)

// watches are the subscriptions that watchers share. One goroutine passes their messages on.
type watches struct {
	mu       sync.Mutex
	msgs     chan *nats.Msg // of all subscriptions; nil before the first one
	patterns map[string]*sharedSubscription
	watchers map[string][]chan<- *nats.Msg // by subject
}

type sharedSubscription struct {
	*nats.Subscription
	watchers int
}

// Watch passes the messages on a subject to msgs until stop is called; it drops a message if
// msgs is full. The watchers of a pattern, which matches the subject, share a subscription:
// with many short calls, one for each costs more than the calls. The server receives the
// subscription before a message that is published later on the same connection.
func (b *Bus) Watch(pattern, subject string, msgs chan<- *nats.Msg) (stop func(), err error) {
	w := &b.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.msgs == nil {
		w.msgs = make(chan *nats.Msg, publisher.MaxInFlight)
		w.patterns, w.watchers = map[string]*sharedSubscription{}, map[string][]chan<- *nats.Msg{}
		go w.pass(b.closed)
	}
	shared := w.patterns[pattern]
	if shared == nil {
		sub, err := b.nc.ChanSubscribe(pattern, w.msgs)
		if err != nil {
			return nil, err
		}
		shared = &sharedSubscription{Subscription: sub}
		w.patterns[pattern] = shared
	}
	shared.watchers++
	w.watchers[subject] = append(w.watchers[subject], msgs)
	return func() { w.stop(pattern, subject, msgs) }, nil
}

func (w *watches) stop(pattern, subject string, msgs chan<- *nats.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	others := w.watchers[subject]
	if i := slices.Index(others, msgs); i >= 0 {
		others = slices.Delete(others, i, i+1)
	}
	if w.watchers[subject] = others; len(others) == 0 {
		delete(w.watchers, subject)
	}
	shared := w.patterns[pattern]
	if shared.watchers--; shared.watchers == 0 {
		delete(w.patterns, pattern)
		_ = shared.Unsubscribe() // fails only if the connection is closed
	}
}

func (w *watches) pass(closed <-chan struct{}) {
	for {
		select {
		case <-closed:
			return
		case msg := <-w.msgs:
			w.mu.Lock()
			for _, watcher := range w.watchers[msg.Subject] {
				select {
				case watcher <- msg:
				default:
				}
			}
			w.mu.Unlock()
		}
	}
}
