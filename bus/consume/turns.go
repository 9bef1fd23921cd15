package consume

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/internal/pull"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/tools/fair"
)

// turns lets sessions take turns. The consumer of a queue delivers in the order of its stream,
// so a session that submits 100,000 calls would delay all others. If a queue has a backlog,
// one of its processes leads: it reads the subjects of the waiting messages, and handles those
// of sessions that got less than their share before the consumer delivers them. The messages
// of one session stay in order, except that those with bus.PriorityHeader are a lane of their own.
//
// Config.SessionSlots limits what a process handles of a session at once. It holds a
// message that arrives beyond, with its lease and without a slot. If it may hold no more, it
// does not pull, and leads.
//
// A message that was handled ahead stays in its stream until the consumer has passed it, so
// nothing is lost if the process dies. Config.TakeAhead records it, so that the process
// to which the consumer delivers it knows.
type turns struct {
	k      *consumption
	shares *fair.Shares

	// Of the consumer's last delivery to this process: its number, and how many messages waited.
	delivered, pending atomic.Uint64
	measuring          atomic.Bool
	backlog            chan struct{} // has an element if there is a backlog
	arrived            chan struct{} // has an element if a session waits that did not
}

const (
	// maxWait is the wait in a queue beyond which sessions take turns.
	maxWait = 250 * time.Millisecond
	// turnInterval is how often the leader compares the shares of the sessions.
	turnInterval = 10 * time.Millisecond
	// leadInterval is how often the leader looks at the consumer, and halves what began before:
	// a share is that of about two intervals.
	leadInterval = time.Second
	// leadTimeout is how long after the last pull of a leader the server lets another one lead,
	// and how often others try.
	leadTimeout = 5 * time.Second
	// keptSlots is the part of the slots that only turns get: one of 16.
	keptSlots = 16
	// priorityFactor is how many messages of the next lower priority a message counts as.
	priorityFactor = 8
)

func newTurns(k *consumption) *turns {
	return &turns{k: k, shares: fair.NewShares(k.cfg.SessionSlots, k.cfg.Slots), backlog: make(chan struct{}, 1), arrived: make(chan struct{}, 1)}
}

// signal puts an element into a channel for one, unless it has it.
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
		t.shares.Advance(d.Sequence)
		t.delivered.Store(d.number)
		t.pending.Store(d.pending)
		if d.pending > 0 && t.measuring.CompareAndSwap(false, true) {
			t.measure()
		}
	}
	lane := t.lane(d.Subject, d.msg.Header)
	t.shares.Begin(lane)
	return func() { t.shares.End(lane) }
}

// admit admits a message that arrived, or returns a channel that is closed when enough other
// messages of its session have ended. release follows it.
func (t *turns) admit(subject string) (wait <-chan struct{}) {
	if t == nil {
		return nil
	}
	return t.shares.Admit(t.lane(subject, nil).Session)
}

func (t *turns) release(subject string) {
	if t != nil {
		t.shares.Release(t.lane(subject, nil).Session)
	}
}

// awaitRoom waits until messages may arrive, and returns how many. While it waits, the others
// that wait in the queue need this process to lead.
func (t *turns) awaitRoom(ctx context.Context) int {
	for t != nil {
		n, changed := t.shares.Room()
		if n > 0 || ctx.Err() != nil {
			return n
		}
		signal(t.backlog)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(leadTimeout): // another process may have led until now
		}
	}
	return pull.Max
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

func (t *turns) lane(subject string, header nats.Header) fair.Lane {
	c, _ := t.k.bus.SplitCall(subject) // subjects that name no call share a session
	lane := fair.Lane{Session: c.Session, Cost: 1}
	switch header.Get(bus.PriorityHeader) {
	case bus.PriorityHigh:
		lane.Cost = 1. / priorityFactor
	case bus.PriorityLow:
		lane.Cost = priorityFactor
	}
	return lane
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
			t.k.log.Warn().Err(err).Str("consumer", t.k.consumer.Name).Msg("sessions cannot take turns")
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
	config := jetstream.ConsumerConfig{
		Name: name, FilterSubjects: c.Filter, HeadersOnly: true, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.shares.Delivered() + 1,
		InactiveThreshold: leadTimeout, MemoryStorage: true, Replicas: 1, Metadata: map[string]string{"leader": nuid.Next()},
	}
	err := bus.WithChangeTimeout(ctx, func(ctx context.Context) error {
		_, err := b.JetStream().CreateConsumer(ctx, stream, config)
		return err
	})
	if err != nil {
		return err
	}
	t.k.log.Info().Str("consumer", c.Name).Uint64("waiting", t.pending.Load()).Msg("the queue has a backlog; sessions take turns")
	t.shares.Lead(true)
	defer t.stopLeading(ctx, stream, name)
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() { defer cancel(); t.read(ctx, pull.New(b.Conn(), b.API(), stream, name, pull.Max)) })
	return t.give(ctx)
}

func (t *turns) stopLeading(ctx context.Context, stream, consumer string) {
	t.k.slots.Keep(0)
	t.shares.Lead(false)
	select {
	case <-t.backlog: // the one that has ended
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_ = t.k.bus.JetStream().DeleteConsumer(ctx, stream, consumer) // the server does it otherwise
}

// read notes the messages that wait, until ctx or the consumer ends.
func (t *turns) read(ctx context.Context, p *pull.Puller) {
	defer p.Close()
	for ctx.Err() == nil {
		_, err := p.Pull(ctx, pull.Max, func(msg *nats.Msg) {
			if meta, err := msg.Metadata(); err == nil && t.shares.Add(t.lane(msg.Subject, msg.Header), meta.Sequence.Stream) {
				signal(t.arrived)
			}
		})
		if err != nil {
			return
		}
		for t.shares.IsFull() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(leadInterval):
			}
		}
	}
}

// give handles messages ahead, as slots get free, until the backlog has ended.
func (t *turns) give(ctx context.Context) error {
	compare, progress := time.NewTicker(turnInterval), time.NewTicker(leadInterval)
	defer compare.Stop()
	defer progress.Stop()
	t.shares.Compare()
	for delivered := t.delivered.Load(); ; {
		for t.shares.HasTurn() && t.k.slots.TakeFirst(ctx) {
			if lane, sequence, ok := t.shares.Take(); ok {
				t.k.running.Go(func() { t.handle(lane, sequence) })
			} else {
				t.k.slots.Release()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.arrived:
		case <-compare.C:
			kept := 0 // a short call need not wait for the end of a long one
			if t.shares.Compare() {
				kept = t.k.cfg.Slots / keptSlots
			}
			t.k.slots.Keep(kept)
		case <-progress.C:
			info, err := t.look(ctx)
			if err != nil {
				return err
			}
			if room, _ := t.shares.Room(); room > 0 && info.NumPending <= (info.Delivered.Consumer-delivered)/uint64(leadInterval/maxWait) {
				return nil
			}
			delivered = info.Delivered.Consumer
			t.shares.Decay()
		}
	}
}

// look reads how far the consumer is.
func (t *turns) look(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, t.k.bus.Config().Timeout)
	defer cancel()
	info, ok, err := t.k.bus.ConsumerInfo(ctx, t.k.consumer)
	if err == nil && !ok {
		err = jetstream.ErrConsumerNotFound
	}
	if err == nil {
		t.shares.Advance(info.Delivered.Stream)
	}
	return info, err
}

// handle handles a message ahead, in a slot that was taken.
func (t *turns) handle(lane fair.Lane, sequence uint64) {
	d, err := t.take(sequence)
	switch {
	case err == nil && d != nil:
		t.k.handleDelivery(d)
		return
	case errors.Is(err, errNotTaken):
		t.shares.Leave(lane, sequence)
	case err != nil:
		t.k.log.Warn().Err(err).Uint64("sequence", sequence).Msg("a call waits for its place in the queue")
		t.shares.Leave(lane, sequence)
	}
	t.k.slots.Release()
	t.shares.Release(lane.Session)
}

// errNotTaken means that another process has taken a message.
var errNotTaken = errors.New("the message was taken before")

// take returns a message that this process may handle ahead, or nil if the consumer has
// delivered it, or if it is gone.
func (t *turns) take(sequence uint64) (*Delivery, error) {
	ctx, cancel := context.WithTimeout(t.k.work, t.k.bus.Config().Timeout)
	defer cancel()
	var looked errgroup.Group // at the same time, because somebody waits for the call
	looked.Go(func() error {
		info, err := t.look(ctx)
		if err == nil && info.Delivered.Stream >= sequence {
			err = jetstream.ErrMsgNotFound // among those that wait
		}
		return err
	})
	m, err := t.k.bus.API().GetMessage(ctx, t.k.bus.StreamName(t.k.consumer.Stream), jsapi.Get{Sequence: sequence})
	err = cmp.Or(looked.Wait(), err)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	taken, err := t.k.cfg.TakeAhead(ctx, m.Subject, sequence)
	if err == nil && !taken {
		err = errNotTaken
	}
	if err != nil {
		return nil, err
	}
	// A process to which the consumer delivers it from now on knows that it was taken.
	if info, err := t.look(ctx); err != nil || info.Delivered.Stream >= sequence {
		return nil, err
	}
	return aheadDelivery(t.k.bus, m), nil
}
