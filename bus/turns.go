package bus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// turns lets sessions take turns. The consumer of a queue delivers in the order of its stream,
// so a session that submits 100,000 calls would delay all others. If a queue has a backlog,
// one of its processes leads: it reads the subjects of the waiting messages, and handles those
// of sessions that got less than their share before the consumer delivers them. The messages
// of one session stay in order.
//
// A message that was handled ahead stays in its stream until the consumer has passed it, so
// nothing is lost if the process dies. ConsumeConfig.TakeAhead records it, so that the process
// to which the consumer delivers it knows.
type turns struct {
	k *consumption

	// The last delivery of the consumer: its sequences in the stream and of the consumer, and
	// how many messages waited behind it.
	position, delivered, pending atomic.Uint64
	measuring                    atomic.Bool
	leading                      atomic.Bool
	backlog                      chan struct{} // has an element if there is a backlog
	arrived                      chan struct{} // has an element if a session waits that did not

	mu      sync.Mutex
	waiting map[string][]uint64 // the sequences of messages by session, in order
	total   int                 // of these
	running map[string]int      // by session
	recent  map[string]float64  // begun, halved at each leadInterval
	limit   float64             // the share below which a session has its turn
}

const (
	// maxWait is the wait in a queue beyond which sessions take turns.
	maxWait = 250 * time.Millisecond
	// leadInterval is how often the leader looks at the consumer. Its share counts what began
	// in about the last two of them.
	leadInterval = time.Second
	// turnInterval is how often the leader compares the shares of the sessions.
	turnInterval = 10 * time.Millisecond
	// keptShare is the share of the slots that only turns get: one of 16.
	keptShare = 16
	// outstanding is the part of all shares that the largest one has at least, if sessions take
	// turns: an eighth.
	outstanding = 8
	// leadTimeout is how long after the death of a leader another one can lead.
	leadTimeout = 5 * time.Second
	// maxWaitingAhead is how many messages a leader remembers, of 8 bytes each.
	maxWaitingAhead = 1 << 20
)

func newTurns(k *consumption) *turns {
	return &turns{k: k, backlog: make(chan struct{}, 1), arrived: make(chan struct{}, 1), running: map[string]int{}}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// begin notes that the handling of a delivery begins. end follows it.
func (t *turns) begin(d *Delivery) (end func()) {
	if t == nil {
		return func() {}
	}
	if !d.Ahead {
		t.advance(d.Sequence)
		t.delivered.Store(d.consumed)
		t.pending.Store(d.behind)
		if d.behind > 0 && !t.leading.Load() && t.measuring.CompareAndSwap(false, true) {
			t.measure()
		}
	}
	session := t.session(d.Subject)
	t.count(session, 1)
	return func() { t.count(session, -1) }
}

// advance notes that the consumer has delivered the messages up to a sequence.
func (t *turns) advance(sequence uint64) {
	for p := t.position.Load(); p < sequence && !t.position.CompareAndSwap(p, sequence); p = t.position.Load() {
	}
}

// measure reports a backlog if more messages wait than the consumer delivers in maxWait.
func (t *turns) measure() {
	before := t.delivered.Load()
	time.AfterFunc(maxWait, func() {
		t.measuring.Store(false)
		if t.pending.Load() > t.delivered.Load()-before {
			signal(t.backlog)
		}
	})
}

func (t *turns) session(subject string) string {
	c, _ := t.k.bus.SplitCall(subject)
	return c.Session
}

func (t *turns) count(session string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[session] += n; t.running[session] == 0 {
		delete(t.running, session)
	}
	if n > 0 && t.leading.Load() {
		t.recent[session]++
	}
}

// run leads whenever there is a backlog, until ctx ends.
func (t *turns) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.backlog:
		}
		err := t.lead(ctx)
		if err == nil { // the backlog has ended
			continue
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) && ctx.Err() == nil {
			t.k.bus.log.Warn().Err(err).Str("consumer", t.k.consumer.Name).Msg("sessions cannot take turns")
		}
		select {
		case <-ctx.Done():
		case <-time.After(leadTimeout): // another process leads
		}
	}
}

// lead reads ahead and gives turns until the backlog has ended. It returns ErrConsumerExists if
// another process leads: the server has one consumer with the name, and removes it if nobody
// pulls.
func (t *turns) lead(ctx context.Context) error {
	b, c := t.k.bus, t.k.consumer
	stream, name := b.StreamName(c.Stream), "turns-"+c.Name
	err := WithChangeTimeout(ctx, func(ctx context.Context) error {
		_, err := b.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
			Name: name, FilterSubjects: c.Filter, HeadersOnly: true, AckPolicy: jetstream.AckNonePolicy,
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.position.Load() + 1,
			InactiveThreshold: leadTimeout, MemoryStorage: true, Replicas: 1, Metadata: map[string]string{"leader": nuid.Next()},
		})
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		select {
		case <-t.backlog: // it was that of before
		default:
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		_ = b.js.DeleteConsumer(last, stream, name) // the server does it otherwise
	}()
	t.reset(true)
	defer t.reset(false)
	b.log.Info().Str("consumer", c.Name).Uint64("waiting", t.pending.Load()).Msg("the queue has a backlog; sessions take turns")
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() { defer cancel(); t.read(ctx, newPuller(b.nc, b.api, stream, name)) })
	return t.give(ctx)
}

func (t *turns) reset(leading bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting, t.recent, t.total, t.limit = map[string][]uint64{}, map[string]float64{}, 0, 0
	t.leading.Store(leading)
	t.k.slots.keep(0)
}

// read notes the messages that wait, until ctx or the consumer ends.
func (t *turns) read(ctx context.Context, p *puller) {
	defer p.close()
	for ctx.Err() == nil {
		_, err := p.pull(ctx, maxPull, func(msg *nats.Msg) {
			if meta, err := msg.Metadata(); err == nil {
				t.add(t.session(msg.Subject), meta.Sequence.Stream)
			}
		})
		if err != nil {
			return
		}
		for t.isFull() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(leadInterval):
			}
		}
	}
}

func (t *turns) add(session string, sequence uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[session]) == 0 {
		signal(t.arrived)
	}
	t.waiting[session] = append(t.waiting[session], sequence)
	t.total++
}

func (t *turns) isFull() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total >= maxWaitingAhead
}

// give handles messages ahead, as slots get free, until the backlog has ended.
func (t *turns) give(ctx context.Context) error {
	shares, progress := time.NewTicker(turnInterval), time.NewTicker(leadInterval)
	defer shares.Stop()
	defer progress.Stop()
	for delivered := t.delivered.Load(); ; {
		for t.next(false) != 0 && t.k.slots.takeFirst(ctx) {
			if sequence := t.next(true); sequence != 0 {
				t.k.running.Go(func() { t.handle(sequence) })
			} else {
				t.k.slots.release()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.arrived:
		case <-shares.C:
			t.compare()
			t.keepSlots()
		case <-progress.C:
			info, err := t.look(ctx)
			if err != nil {
				return err
			}
			began := info.Delivered.Consumer - delivered
			if info.NumPending <= began/uint64(leadInterval/maxWait) {
				return nil
			}
			delivered = info.Delivered.Consumer
			t.decay()
		}
	}
}

// keepSlots keeps some slots for turns while several sessions have calls, so that a short call
// need not wait for the end of a long one.
func (t *turns) keepSlots() {
	t.mu.Lock()
	several := len(t.recent) > 1
	t.mu.Unlock()
	if several {
		t.k.slots.keep(t.k.cfg.Slots / keptShare)
	} else {
		t.k.slots.keep(0)
	}
}

// compare compares the shares of the sessions. If none stands out, the order of the queue is
// fair, and turns would only cost time.
func (t *turns) compare() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var largest, sum float64
	for session := range t.recent {
		largest, sum = max(largest, t.share(session)), sum+t.share(session)
	}
	for session := range t.running {
		if _, counted := t.recent[session]; !counted {
			largest, sum = max(largest, t.share(session)), sum+t.share(session)
		}
	}
	if t.limit = largest / 2; largest < sum/outstanding {
		t.limit = 0
	}
}

// look reads how far the consumer is.
func (t *turns) look(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, t.k.bus.cfg.Timeout)
	defer cancel()
	info, ok, err := t.k.bus.ConsumerInfo(ctx, t.k.consumer)
	if err == nil && !ok {
		err = jetstream.ErrConsumerNotFound
	}
	if err == nil {
		t.advance(info.Delivered.Stream)
	}
	return info, err
}

func (t *turns) decay() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for session, n := range t.recent {
		if t.recent[session] = n / 2; n < 0.1 {
			delete(t.recent, session)
		}
	}
}

// next returns the first message of the session whose turn it is, or 0: that with the smallest
// share, if it is less than half of the largest. With take, the session gets it.
func (t *turns) next(take bool) (sequence uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	smallest, chosen := t.limit, ""
	if t.limit == 0 {
		return 0
	}
	for session := range t.waiting {
		if t.share(session) < smallest && t.skipDelivered(session) {
			smallest, chosen = t.share(session), session
		}
	}
	queue := t.waiting[chosen]
	if len(queue) == 0 {
		return 0
	}
	if take {
		t.waiting[chosen] = queue[1:]
		t.total--
	}
	return queue[0]
}

func (t *turns) share(session string) float64 { return t.recent[session] + float64(t.running[session]) }

// skipDelivered forgets the messages of a session that the consumer has delivered, and
// reports whether others wait.
func (t *turns) skipDelivered(session string) bool {
	queue, position := t.waiting[session], t.position.Load()
	skip := 0
	for skip < len(queue) && queue[skip] <= position {
		skip++
	}
	t.total -= skip
	if skip == len(queue) {
		delete(t.waiting, session)
		return false
	}
	t.waiting[session] = queue[skip:]
	return true
}

// handle handles a message ahead, in a slot that was taken.
func (t *turns) handle(sequence uint64) {
	d, err := t.take(sequence)
	if err != nil {
		t.k.bus.log.Warn().Err(err).Uint64("sequence", sequence).Msg("a call waits for its place in the queue")
	}
	if d == nil {
		t.k.slots.release()
		return
	}
	t.k.handleDelivery(d)
}

// take returns a message that this process may handle ahead, or nil if the consumer has
// delivered it, or if it is gone.
func (t *turns) take(sequence uint64) (*Delivery, error) {
	ctx, cancel := context.WithTimeout(t.k.work, t.k.bus.cfg.Timeout)
	defer cancel()
	if info, err := t.look(ctx); err != nil || info.Delivered.Stream >= sequence {
		return nil, err
	}
	m, err := t.k.bus.api.GetMessage(ctx, t.k.bus.StreamName(t.k.consumer.Stream), jsapi.Get{Sequence: sequence})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if taken, err := t.k.cfg.TakeAhead(ctx, m.Subject, sequence); !taken || err != nil {
		return nil, err
	}
	// A process to which the consumer delivers it from now on knows that it was taken.
	if info, err := t.look(ctx); err != nil || info.Delivered.Stream >= sequence {
		return nil, err
	}
	return aheadDelivery(t.k.bus, m), nil
}
