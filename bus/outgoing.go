package bus

import (
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// outgoing sends what the goroutines of this process publish, and hands each of
// them the acknowledgement of its own. One goroutine sends for all, because what
// it finds together leaves in one write: with a write for each message, a short
// call costs a fifth more. And one subscription takes all acknowledgements,
// without the timer, the channels and the decoder that a future of the client
// library needs for each.
type outgoing struct {
	nc       *nats.Conn
	log      zerolog.Logger
	inbox    string // of the acknowledgements, up to their number
	queue    chan *outMsg
	stopOnce sync.Once
	stopping chan struct{}
	stopped  chan struct{}
	alone    time.Time // until when nobody is waited for before a write

	mu      sync.Mutex
	beat    int // counts the parts of the patience that passed
	number  uint64
	waiting map[uint64]*outMsg
}

// beats is how many parts the patience has. Who waits is looked at in each.
const beats = 8

// gatherPatience is how long it may take until the next one publishes. In full
// flow it takes a tenth of that.
const gatherPatience = 200 * time.Microsecond

// outMsg is a message on its way.
type outMsg struct {
	mu       sync.Mutex
	nats.Msg // empty once nobody waits any more

	number uint64      // 0: nobody waits for an acknowledgement
	beat   int         // in which the wait began
	answer chan pubAck // takes one
}

// pubAck is what came of a publish.
type pubAck struct {
	Ack
	err error
}

// errStalled: maxInFlight publishes wait for their acknowledgement.
var errStalled = errors.New("too many publishes wait for their acknowledgement")

// newOutgoing starts the sending. An acknowledgement that does not come within
// the patience is given up.
func newOutgoing(nc *nats.Conn, patience time.Duration, log zerolog.Logger) (*outgoing, error) {
	o := &outgoing{
		nc: nc, log: log, inbox: nc.NewInbox() + ".",
		queue: make(chan *outMsg, maxInFlight), waiting: make(map[uint64]*outMsg),
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	if _, err := nc.Subscribe(o.inbox+"*", o.acknowledged); err != nil {
		return nil, err
	}
	go o.run(patience)
	return o, nil
}

// stop sends what is queued, and nothing more.
func (o *outgoing) stop() {
	o.stopOnce.Do(func() { close(o.stopping) })
	<-o.stopped
}

func (o *outgoing) run(patience time.Duration) {
	defer close(o.stopped)
	lost := o.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer o.nc.RemoveStatusListener(lost)
	ticker := time.NewTicker(max(patience/beats, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case m := <-o.queue:
			o.gather()
			o.send(m)
			o.sendQueued()
		case <-lost:
			o.giveUp(0, nats.ErrDisconnected)
		case <-ticker.C:
			o.giveUp(beats, nats.ErrTimeout)
		case <-o.stopping:
			o.sendQueued()
			return
		}
	}
}

// gather lets those who are about to publish do so, for as long as some do.
// Beside goroutines that compute, that lasts until each of them had its time
// slice; where it costs more than it brings, it is seldom tried again.
func (o *outgoing) gather() {
	start := time.Now()
	if start.Before(o.alone) {
		return
	}
	for n := -1; n < len(o.queue); {
		n = len(o.queue)
		runtime.Gosched()
		if took := time.Since(start); took > time.Duration(1+len(o.queue))*gatherPatience {
			o.alone = start.Add(min(20*took, time.Minute))
			return
		}
	}
}

func (o *outgoing) sendQueued() {
	for range len(o.queue) {
		o.send(<-o.queue)
	}
}

func (o *outgoing) send(m *outMsg) {
	m.mu.Lock()
	var err error
	if m.Subject != "" {
		err = o.nc.PublishMsg(&m.Msg)
	}
	m.mu.Unlock()
	switch {
	case err == nil:
	case m.number != 0:
		o.resolve(m.number, pubAck{err: err})
	default:
		o.log.Error().Err(err).Str("subject", m.Subject).Msg("cannot send")
	}
}

// withdraw ends the wait for a message. If it was not sent yet, it never is: the
// body and the header are the caller's again.
func (o *outgoing) withdraw(m *outMsg) {
	o.forget(m.number)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Msg = nats.Msg{}
}

// enqueue waits for room until done.
func (o *outgoing) enqueue(m *outMsg, done <-chan struct{}) error {
	select {
	case <-o.stopped: // even if there is room
		return nats.ErrConnectionClosed
	default:
	}
	select {
	case o.queue <- m:
		return nil
	case <-o.stopped:
		return nats.ErrConnectionClosed
	case <-done:
		return nil // withdrawn by who waits no more
	}
}

// put queues a message that nobody acknowledges.
func (o *outgoing) put(subject string, body []byte) error {
	return o.enqueue(&outMsg{Msg: nats.Msg{Subject: subject, Data: body}}, nil)
}

// publish queues a message and returns what its stream says of it. Any error
// that is not the server's leaves open whether the message is stored; ok is
// false if done ended the wait.
func (o *outgoing) publish(subject string, header nats.Header, body []byte, done <-chan struct{}) (a pubAck, ok bool) {
	m := &outMsg{Msg: nats.Msg{Subject: subject, Header: header, Data: body}, answer: make(chan pubAck, 1)}
	if err := o.expect(m); err != nil {
		return pubAck{err: err}, true
	}
	defer o.withdraw(m)
	if err := o.enqueue(m, done); err != nil {
		return pubAck{err: err}, true
	}
	select {
	case a := <-m.answer:
		return a, true
	case <-o.stopped:
		return pubAck{err: nats.ErrConnectionClosed}, true
	case <-done:
		return pubAck{}, false
	}
}

// expect gives a message the number under which its acknowledgement comes.
func (o *outgoing) expect(m *outMsg) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) >= maxInFlight {
		return errStalled
	}
	o.number++
	m.number, m.beat, o.waiting[o.number] = o.number, o.beat, m
	m.Reply = o.inbox + strconv.FormatUint(m.number, 36)
	return nil
}

// forget ends the wait for an acknowledgement, and returns who waited.
func (o *outgoing) forget(number uint64) *outMsg {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.waiting[number]
	delete(o.waiting, number)
	return m
}

func (o *outgoing) resolve(number uint64, a pubAck) {
	if m := o.forget(number); m != nil {
		m.answer <- a
	}
}

// giveUp ends the waits that saw more than so many beats. It is one itself.
func (o *outgoing) giveUp(seen int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.beat++
	for number, m := range o.waiting {
		if o.beat-m.beat > seen {
			delete(o.waiting, number)
			m.answer <- pubAck{err: err}
		}
	}
}

// acknowledged takes an acknowledgement.
func (o *outgoing) acknowledged(msg *nats.Msg) {
	if number, err := strconv.ParseUint(msg.Subject[len(o.inbox):], 36, 64); err == nil {
		ack, err := jsapi.ParsePubAck(msg)
		o.resolve(number, pubAck{Ack(ack), err})
	}
}
