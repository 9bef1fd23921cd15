package notify

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

const (
	// maxFollowers is how many notifications of one chat this process holds. The others
	// of the chat wait in the server, so that slots stay free for other chats: for
	// rankDelay for each notification before them, and at least for followDelay.
	maxFollowers = channel.Slots / 4
	rankDelay    = 2 * time.Millisecond
	followDelay  = 50 * time.Millisecond
	// While another process has the first notification of a chat, this process looks
	// for its end, at growing intervals from minPoll on. After maxPoll the chat waits in
	// the server, longer each time, but at most for maxBlocked, and no notification for
	// longer than maxPoll for each one before it.
	minPoll    = time.Millisecond
	maxPoll    = 500 * time.Millisecond
	maxBlocked = 10 * time.Second
)

// order keeps the notifications of each chat of a channel in order. A notification may
// be sent when the outbox stores no earlier one of its chat. The outbox is a work queue,
// so it stores the notifications that are not settled, whichever process they were
// delivered to. That makes the rule hold over all processes, and after a crash. A cluster
// can keep one that is settled, see settled.
//
// order knows the sequences of the stored notifications: it reads those that were
// published before the ones that it receives. A process that receives all notifications
// of the outbox, as a single one does, reads nothing.
type order struct {
	bus      *bus.Bus
	subject  string
	consumer bus.Consumer

	reading sync.Mutex // one read at a time

	mu     sync.Mutex
	cursor uint64 // all notifications stored up to this sequence are known
	chats  map[string]*chat
	known  int // number of notifications
	limit  int // of known; above it, the stored ones are read again
}

// chat lists the notifications of a chat that are stored, as far as this process knows.
type chat struct {
	queue    []*turn   // by sequence
	failures int       // also waits for another process
	until    time.Time // the first one is retried then
	blocked  bool      // another process has the first one
}

// turn is one notification in the queue of its chat.
type turn struct {
	order    *order
	id       string // of the chat
	sequence uint64
	held     chan struct{} // closed when this process has ended its attempt; nil if it makes none
	sent     bool
}

// minKnown is the number of known notifications below which none is forgotten.
const minKnown = 4096

func newOrder(b *bus.Bus, channel string) *order {
	return &order{bus: b, subject: b.Notify(channel), consumer: b.ChannelConsumer(channel), chats: map[string]*chat{}, limit: minKnown}
}

// wait returns the turn of a notification when it may be sent; the caller ends the
// turn. It returns nil if this process has sent the notification in the meantime. Its
// error is a verdict.
func (o *order) wait(ctx context.Context, stop <-chan struct{}, chat string, sequence uint64) (*turn, error) {
	if err := o.read(ctx, sequence); err != nil {
		return nil, err
	}
	t, err := o.hold(ctx, chat, sequence)
	if t == nil {
		return nil, err
	}
	verdict := t.wait(ctx, stop)
	if verdict != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		t.free() // it stays in its queue
		return nil, verdict
	}
	return t, nil
}

// wait returns nil when t is the first of its chat, or a verdict.
func (t *turn) wait(ctx context.Context, stop <-chan struct{}) error {
	var began time.Time // of the polls
	for {
		held, previous, delay := t.order.before(t)
		if held == nil && previous == nil && delay == 0 {
			return nil
		}
		var timer <-chan time.Time
		if previous == nil {
			began = time.Time{}
		} else {
			stored, err := bus.IsStored(ctx, t.order.bus, bus.Outbox, previous.sequence)
			if err != nil {
				return err
			}
			if began.IsZero() {
				began = time.Now()
			}
			elapsed := time.Since(began)
			late := delay == 0 && elapsed > maxPoll
			if !stored || late && t.order.settled(ctx, previous) {
				t.order.remove(previous)
				began = time.Time{}
				continue
			}
			if late {
				t.block()
				continue
			}
			timer = time.After(max(minPoll, elapsed/8))
		}
		if delay > 0 {
			return bus.RetryAfter(delay, nil)
		}
		select {
		case <-held:
		case <-timer:
		case <-stop:
			return bus.RetryAfter(0, nil)
		}
	}
}

// settled reports whether a stored notification is settled. A cluster whose leader changes can
// count an acknowledgement and keep the message. No process gets that again, so it would hold up
// its chat for ever.
func (o *order) settled(ctx context.Context, t *turn) bool {
	info, ok, err := o.bus.ConsumerInfo(ctx, o.consumer)
	if err != nil || !ok || info.AckFloor.Stream < t.sequence {
		return false
	}
	_ = jsapi.New(o.bus.JetStream()).DeleteMessage(ctx, o.bus.StreamName(bus.Outbox), t.sequence) // otherwise the next process looks again
	return true
}

// read learns of the notifications that are stored up to a sequence.
func (o *order) read(ctx context.Context, sequence uint64) error {
	o.reading.Lock()
	defer o.reading.Unlock()
	o.mu.Lock()
	again := o.known > o.limit
	first, last := o.cursor+1, max(sequence, o.cursor)
	o.mu.Unlock()
	if again {
		first = 1
	}
	stored := map[uint64]string{}
	if first < last { // otherwise the only new one is the caller's
		for m, err := range o.bus.Read(ctx, bus.Outbox, bus.Query{Subject: o.subject, From: first, Before: last + 1}) {
			if err != nil {
				return err
			}
			var n channel.Notification
			_ = json.Unmarshal(m.Body, &n) // an invalid one becomes a dead letter
			stored[m.Sequence] = n.ChatID
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cursor = last
	for sequence, chat := range stored {
		o.find(chat, sequence)
	}
	if !again {
		return nil
	}
	for _, c := range o.chats { // forget what is not stored any more
		for _, t := range slices.Clone(c.queue) {
			if _, ok := stored[t.sequence]; !ok && t.held == nil {
				o.drop(t)
			}
		}
	}
	o.limit = 2*o.known + minKnown
	return nil
}

// find returns the turn of a notification, and adds it if it is not known.
func (o *order) find(id string, sequence uint64) *turn {
	c := o.chats[id]
	if c == nil {
		c = new(chat)
		o.chats[id] = c
	}
	i, ok := c.index(sequence)
	if !ok {
		c.queue = slices.Insert(c.queue, i, &turn{order: o, id: id, sequence: sequence})
		o.known++
	}
	return c.queue[i]
}

func (c *chat) index(sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(c.queue, sequence, func(t *turn, sequence uint64) int {
		switch {
		case t.sequence < sequence:
			return -1
		case t.sequence > sequence:
			return 1
		}
		return 0
	})
}

// hold marks a notification as held by this process. If its lease ended while this
// process was sending it, hold waits for the outcome of that attempt; if it succeeded,
// hold returns nil.
func (o *order) hold(ctx context.Context, chat string, sequence uint64) (*turn, error) {
	for {
		o.mu.Lock()
		t := o.find(chat, sequence)
		held := t.held
		if held == nil {
			t.held = make(chan struct{})
		}
		o.mu.Unlock()
		if held == nil {
			return t, nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		o.mu.Lock()
		sent := t.sent
		o.mu.Unlock()
		if sent {
			return nil, nil
		}
	}
}

// before returns what t has to wait for: the end of this process's attempt to send the
// nearest notification before t that it holds, otherwise the notification before t, which
// another process or the server has; nothing if t is the first of its chat. If delay is
// not 0, t has to wait for that long in the server, unless another process has sent the
// previous one: otherwise a chat that waited for that process would wait on, and each of its
// notifications would go from process to process until one happens to know no earlier one.
func (o *order) before(t *turn) (held <-chan struct{}, previous *turn, delay time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.chats[t.id]
	i, _ := c.index(t.sequence)
	if i == 0 {
		return nil, nil, 0
	}
	behind := time.Duration(i) * rankDelay
	if pause := time.Until(c.until); pause > 0 && c.queue[0].held == nil {
		if c.blocked {
			pause = min(pause, time.Duration(i)*maxPoll)
		}
		return nil, c.queue[0], pause + behind
	}
	for _, p := range slices.Backward(c.queue[:i]) {
		if p.held == nil {
			continue
		}
		if i > maxFollowers {
			return nil, nil, max(behind, followDelay)
		}
		return p.held, nil, 0
	}
	return nil, c.queue[i-1], 0
}

// free ends the attempt to send a notification. The caller holds the lock.
func (t *turn) free() {
	close(t.held)
	t.held = nil
}

// block lets the chat wait for another process.
func (t *turn) block() {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	c := t.order.chats[t.id]
	c.failures++
	c.until, c.blocked = time.Now().Add(min(bus.RetryDelay(c.failures), maxBlocked)), true
}

// end ends the turn with the error of the attempt to send, and returns the verdict. A
// notification that was sent or rejected leaves its queue, and the next one follows.
func (t *turn) end(err error) error {
	delay, postponed := bus.Postponed(err)
	_, rejected := bus.Rejected(err)
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.chats[t.id]
	if err == nil || rejected {
		t.sent = err == nil
		c.works()
		o.drop(t)
		t.free()
		return err
	}
	c.failures++
	if !postponed {
		delay = bus.RetryDelay(c.failures)
		err = bus.RetryAfter(delay, err)
	}
	c.until, c.blocked = time.Now().Add(delay), false
	t.free()
	return err
}

// works records that a notification of the chat was sent.
func (c *chat) works() { c.failures, c.until = 0, time.Time{} }

// remove removes a notification that is not stored any more. Another process sent it, so its
// chat works.
func (o *order) remove(t *turn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.held != nil {
		return
	}
	if c := o.chats[t.id]; c != nil {
		c.works()
	}
	o.drop(t)
}

func (o *order) drop(t *turn) {
	c := o.chats[t.id]
	if c == nil {
		return
	}
	i, ok := c.index(t.sequence)
	if !ok || c.queue[i] != t {
		return
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	o.known--
	if len(c.queue) == 0 {
		delete(o.chats, t.id)
	}
}
