// Package publisher sends the messages of all goroutines of a process over one connection
// and gives each of them its acknowledgement (publisher.go). To a server that asks for it,
// it sends concurrent publishes to a stream as one atomic batch, which the server syncs
// once: group commit (batch.go).
package publisher

import (
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Publisher sends messages. One goroutine sends all messages, so that those that are
// ready together leave in one write: with one write for each message, a short call
// takes a fifth longer. One subscription receives all acknowledgements, without the
// timer, the channels and the decoder that nats.go needs for each future.
type Publisher struct {
	nc       *nats.Conn
	log      zerolog.Logger
	inbox    string // subject prefix of the acknowledgements; the message number follows
	queue    chan *outMsg
	stopOnce sync.Once
	stopping chan struct{}
	stopped  chan struct{}

	skipCoalesceUntil time.Time // until this time, write immediately: coalescing was too slow

	askServer func() (minBatch int)
	asking    sync.WaitGroup
	minBatch  atomic.Int32  // the smallest batch that is faster than single publishes; 0: none is
	groups    groups        // of the publishes to a server that wants batches
	ready     chan struct{} // receives if messages of a group can be sent

	mu      sync.Mutex
	checks  int // number of checks for timeouts so far
	number  uint64
	waiting map[uint64]*outMsg
}

// checksPerTimeout is how often the publisher checks for timeouts within one timeout.
const checksPerTimeout = 8

// coalesceTimeout is how long coalesce may take for each message. Under load it takes
// a tenth of that.
const coalesceTimeout = 200 * time.Microsecond

// outMsg is a message that is queued or waits for its acknowledgement.
type outMsg struct {
	mu       sync.Mutex
	nats.Msg // empty after withdraw

	number uint64      // 0: no acknowledgement
	checks int         // publisher.checks when the wait began
	result chan pubAck // receives one

	group   *group    // nil: it is never sent in a batch
	sent    bool      // its group counts it
	members []*outMsg // if it stands for a batch
}

// pubAck is the result of a publish.
type pubAck struct {
	jsapi.PubAck
	err error
}

// MaxInFlight limits the publishes that wait for their acknowledgement.
const MaxInFlight = 8192

// maxQueued limits the publishes that wait for the next write; more block.
const maxQueued = 1024

// errStalled means that MaxInFlight publishes wait for their acknowledgement.
var errStalled = errors.New("too many publishes wait for their acknowledgement")

// New starts a publisher to streams whose subjects have the prefix. A publish without an
// acknowledgement within the timeout fails. askServer returns the size of the smallest batch
// that the server wants, or 0; New calls it, and so does each reconnect.
func New(nc *nats.Conn, timeout time.Duration, log zerolog.Logger, prefix string, streams []jetstream.StreamConfig, askServer func() int) (*Publisher, error) {
	p := &Publisher{
		nc: nc, log: log, inbox: nc.NewInbox() + ".", groups: newGroups(prefix, streams), ready: make(chan struct{}, 1), askServer: askServer,
		queue: make(chan *outMsg, maxQueued), waiting: make(map[uint64]*outMsg),
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	if _, err := nc.Subscribe(p.inbox+"*", p.acknowledged); err != nil {
		return nil, err
	}
	p.minBatch.Store(int32(askServer())) // the first publish already knows it
	go p.run(timeout)
	return p, nil
}

// Stop sends the queued messages and ends the publisher.
func (p *Publisher) Stop() {
	p.stopOnce.Do(func() { close(p.stopping) })
	<-p.stopped
}

// Wait returns when a stopped publisher asks its server nothing any more, which ends with the
// connection.
func (p *Publisher) Wait() { p.asking.Wait() }

func (p *Publisher) run(timeout time.Duration) {
	defer close(p.stopped)
	status := p.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer p.nc.RemoveStatusListener(status)
	ticker := time.NewTicker(max(timeout/checksPerTimeout, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case m := <-p.queue:
			p.coalesce()
			p.add(m)
			p.sendQueued()
		case <-p.ready:
			p.coalesce()
			p.sendQueued()
			p.sendPending()
		case s := <-status:
			if s == nats.CONNECTED {
				p.reconnected()
			} else {
				p.failWaiting(0, nats.ErrDisconnected)
			}
		case <-ticker.C:
			p.failWaiting(checksPerTimeout, nats.ErrTimeout)
		case <-p.stopping:
			p.sendQueued()
			return
		}
	}
}

// coalesce yields so that goroutines that are about to publish can join this write. On
// a busy CPU, a yield can take whole time slices. After a slow round, coalesce does
// nothing for 20 times the duration of that round (at most a minute).
func (p *Publisher) coalesce() {
	start := time.Now()
	if start.Before(p.skipCoalesceUntil) {
		return
	}
	for n := -1; n < len(p.queue); {
		n = len(p.queue)
		runtime.Gosched()
		if took := time.Since(start); took > time.Duration(1+len(p.queue))*coalesceTimeout {
			p.skipCoalesceUntil = start.Add(min(20*took, time.Minute))
			return
		}
	}
}

// reconnected prepares for the server, which may be another one than before.
func (p *Publisher) reconnected() {
	p.minBatch.Store(0)
	p.asking.Go(func() { p.minBatch.Store(int32(p.askServer())) })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups.byKind {
		g.disabled = false
	}
	p.wake()
}

// wake makes run send what can be sent.
func (p *Publisher) wake() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *Publisher) sendQueued() {
	for range len(p.queue) {
		p.add(<-p.queue)
	}
	if p.minBatch.Load() > 0 {
		p.sendPending()
	}
}

func (p *Publisher) send(m *outMsg) {
	m.mu.Lock()
	var err error
	if m.Subject != "" {
		err = p.nc.PublishMsg(&m.Msg)
	}
	m.mu.Unlock()
	switch {
	case err == nil:
	case m.number != 0:
		p.resolve(m.number, pubAck{err: err})
	default:
		p.log.Error().Err(err).Str("subject", m.Subject).Msg("cannot send")
	}
}

// withdraw ends the wait for a message. If the message was not sent yet, it never is,
// so the caller may reuse its body and header.
func (p *Publisher) withdraw(m *outMsg) {
	p.forget(m.number)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Msg = nats.Msg{}
}

// enqueue waits until the queue accepts the message, or until done.
func (p *Publisher) enqueue(m *outMsg, done <-chan struct{}) error {
	select {
	case <-p.stopped: // the queue may still accept messages
		return nats.ErrConnectionClosed
	default:
	}
	select {
	case p.queue <- m:
		return nil
	case <-p.stopped:
		return nats.ErrConnectionClosed
	case <-done:
		return nil // the caller withdraws it
	}
}

// Put queues a message that needs no acknowledgement.
func (p *Publisher) Put(subject string, body []byte) error {
	return p.enqueue(&outMsg{Msg: nats.Msg{Subject: subject, Data: body}}, nil)
}

// Publish queues a message and returns the answer of its stream. After an error that is
// not from the server, the message may or may not be stored. ok is false if done ended the
// wait.
func (p *Publisher) Publish(subject string, header nats.Header, body []byte, done <-chan struct{}) (ack jsapi.PubAck, ok bool, err error) {
	m := &outMsg{Msg: nats.Msg{Subject: subject, Header: header, Data: body}, result: make(chan pubAck, 1)}
	if len(body) <= maxBatchedBody {
		m.group = p.groups.byKind[p.groups.kind(subject)]
	}
	if err := p.expect(m); err != nil {
		return jsapi.PubAck{}, true, err
	}
	defer p.withdraw(m)
	if err := p.enqueue(m, done); err != nil {
		return jsapi.PubAck{}, true, err
	}
	select {
	case a := <-m.result:
		return a.PubAck, true, a.err
	case <-p.stopped:
		return jsapi.PubAck{}, true, nats.ErrConnectionClosed
	case <-done:
		return jsapi.PubAck{}, false, nil
	}
}

// expect assigns the message the number of its acknowledgement.
func (p *Publisher) expect(m *outMsg) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) >= MaxInFlight {
		return errStalled
	}
	p.register(m)
	return nil
}

func (p *Publisher) register(m *outMsg) {
	p.number++
	m.number, m.checks, p.waiting[p.number] = p.number, p.checks, m
	m.Reply = p.inbox + strconv.FormatUint(m.number, 36)
}

// forget ends the wait for an acknowledgement, and returns the message that waited.
func (p *Publisher) forget(number uint64) *outMsg {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.waiting[number]
	if m != nil {
		p.remove(m)
	}
	return m
}

func (p *Publisher) remove(m *outMsg) {
	delete(p.waiting, m.number)
	switch {
	case !m.sent:
	case m.members != nil:
		m.group.batches--
	default:
		m.group.singles--
		if len(m.group.pending) > 0 {
			p.wake()
		}
	}
}

func (p *Publisher) resolve(number uint64, a pubAck) {
	switch m := p.forget(number); {
	case m == nil:
	case m.members != nil:
		p.endBatch(m, a)
	default:
		m.result <- a
	}
}

// failWaiting is a check for timeouts: it fails the messages that have waited for more
// than so many checks.
func (p *Publisher) failWaiting(checks int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checks++
	for _, m := range p.waiting {
		if p.checks-m.checks > checks {
			p.remove(m)
			if m.members == nil {
				m.result <- pubAck{err: err}
			}
		}
	}
	p.wake()
}

// acknowledged receives an acknowledgement.
func (p *Publisher) acknowledged(msg *nats.Msg) {
	if number, err := strconv.ParseUint(msg.Subject[len(p.inbox):], 36, 64); err == nil {
		ack, err := jsapi.ParsePubAck(msg)
		p.resolve(number, pubAck{ack, err})
	}
}
