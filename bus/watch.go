package bus

import (
	"slices"
	"sync"
	"time"

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
	unused   bool // it had no watcher since the last tick
}

const (
	// lingering is how long a subscription without watchers stays, up to twice as long: the
	// server spends more time on a subscription that comes and goes than on a short call.
	lingering = 5 * time.Second
	// maxLingering limits the subscriptions of a process that stay.
	maxLingering = 1000
)

// Watch passes the messages on a subject to msgs until stop is called; it drops a message if
// msgs is full. The watchers of a pattern, which matches the subject, share a subscription:
// with many short calls, one for each costs more than the calls. It also stays for some
// seconds without watchers. The server receives the subscription before a message that is published later on the same connection.
func (b *Bus) Watch(pattern, subject string, msgs chan<- *nats.Msg) (stop func(), err error) {
	w := &b.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.msgs == nil {
		w.msgs = make(chan *nats.Msg, publisher.MaxInFlight)
		w.patterns, w.watchers = map[string]*sharedSubscription{}, map[string][]chan<- *nats.Msg{}
		b.background.Go(func() { w.pass(b.closed) })
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
	shared.watchers, shared.unused = shared.watchers+1, false
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
	if shared.watchers--; shared.watchers == 0 && len(w.patterns) > maxLingering {
		w.end(pattern, shared)
	}
}

// endUnused ends the subscriptions that had no watcher since the last call.
func (w *watches) endUnused() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pattern, shared := range w.patterns {
		if shared.unused {
			w.end(pattern, shared)
		}
		shared.unused = shared.watchers == 0
	}
}

func (w *watches) end(pattern string, shared *sharedSubscription) {
	delete(w.patterns, pattern)
	_ = shared.Unsubscribe() // fails only if the connection is closed
}

func (w *watches) pass(closed <-chan struct{}) {
	ticker := time.NewTicker(lingering)
	defer ticker.Stop()
	for {
		select {
		case <-closed:
			return
		case <-ticker.C:
			w.endUnused()
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
