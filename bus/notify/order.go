package notify

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

const (
	// maxLine is how many notifications of one chat this process holds. The others of the
	// chat wait in the server, so that slots stay free for other chats: for rankDelay for
	// each notification before them, and at least for followDelay.
	maxLine     = channel.Slots / 4
	rankDelay   = 2 * time.Millisecond
	maxRank     = 10 * time.Second
	followDelay = 50 * time.Millisecond
	// While another process has the first notification of a chat, this process looks for
	// its end, at growing intervals from minPoll on. After maxPoll the chat waits in the
	// server for as long.
	minPoll = time.Millisecond
	maxPoll = 500 * time.Millisecond
	// keptChats is the number of chats below which no failing one is forgotten.
	keptChats = 1024
)

// order keeps the notifications of each chat of a channel in order. Each chat has a subject, and
// a notification may be sent if it is the first one that the outbox stores on its subject. The
// outbox is a work queue, so it stores the notifications that are not settled, whichever process
// they were delivered to. That makes the rule hold over all processes, and after a crash.
type order struct {
	bus      *bus.Bus
	consumer bus.Consumer

	mu    sync.Mutex
	chats map[string]*chat // by subject
	limit int              // of chats; above it, the idle ones are forgotten
}

// chat is what this process knows of a chat, while it has notifications of it or the chat fails.
type chat struct {
	line  []*turn       // in this process, by sequence; the first one is sent, or asks the server
	moved chan struct{} // closed when the line changes
	sent  uint64        // the last one that this process sent; the server may store it a little longer
	at    time.Time     // when the server stored that one
	// The chat waits until a time, unless the notification that it waits for is settled before.
	until    time.Time
	awaits   uint64
	failures int
}

// turn is one delivery in the line of its chat.
type turn struct {
	order     *order
	subject   string
	sequence  uint64
	published time.Time
	// No notification is stored between follows and sequence: it was looked up while follows was
	// sent, so that t can be sent at once after it. 0 if that is not known. It holds until a time: if the server
	// does not hear of this process for the lease, another process may send and settle both.
	follows, asked uint64
	holds          time.Time
}

func newOrder(b *bus.Bus, channel string) *order {
	return &order{bus: b, consumer: b.ChannelConsumer(channel), chats: map[string]*chat{}, limit: keptChats}
}

// wait returns the turn of a notification when it may be sent; the caller ends the turn. It
// returns nil if the notification was settled in the meantime. Its error is a verdict.
func (o *order) wait(ctx context.Context, stop <-chan struct{}, subject string, sequence uint64, published time.Time) (*turn, error) {
	t := &turn{order: o, subject: subject, sequence: sequence, published: published}
	if behind, full := o.join(t); full {
		return nil, consume.RetryAfter(max(behind, followDelay), nil)
	}
	first, verdict := t.wait(ctx, stop)
	if !first {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.leave(t)
		return nil, verdict
	}
	return t, nil
}

// wait returns true when t is the first of its chat. Otherwise it returns a verdict: nil if t was
// settled.
func (t *turn) wait(ctx context.Context, stop <-chan struct{}) (first bool, verdict error) {
	var began time.Time // of the polls
	for {
		c, previous := t.look()
		pause := time.Until(c.until)
		var timer <-chan time.Time
		switch {
		case c.sent >= t.sequence:
			return false, nil
		case pause <= 0 && previous != 0:
			if err := t.ask(ctx, previous); err != nil {
				return false, err
			}
			began = time.Time{}
		case pause <= 0 && t.follows != 0 && c.sent >= t.follows && time.Now().Before(t.holds):
			return true, nil
		default:
			stored, err := t.order.firstStored(ctx, t.subject, c.sent+1)
			switch {
			case err != nil:
				return false, err
			case stored == 0 || stored > t.sequence: // another process sent it
				return false, nil
			case pause > 0 && stored == c.awaits:
				return false, consume.RetryAfter(pause+behind(t.sequence, stored), nil)
			case pause > 0:
				t.resume(c.awaits)
				continue
			case stored == t.sequence:
				return true, nil
			}
			if began.IsZero() {
				began = time.Now()
			}
			elapsed := time.Since(began)
			if elapsed > maxPoll {
				if !t.order.settled(ctx, stored) {
					t.block(stored)
				}
				began = time.Time{}
				continue
			}
			timer = time.After(max(minPoll, elapsed/8))
		}
		select {
		case <-c.moved:
		case <-timer:
		case <-stop:
			return false, consume.RetryAfter(0, nil)
		}
	}
}

// ask finds out whether t follows the one before it in the line.
func (t *turn) ask(ctx context.Context, previous uint64) error {
	if t.asked == previous {
		return nil
	}
	stored, err := t.order.firstStored(ctx, t.subject, previous+1)
	if t.asked = previous; stored == t.sequence {
		t.follows, t.holds = previous, time.Now().Add(t.order.consumer.Lease/2)
	}
	return err
}

// behind is how much later than the first notification of a chat another one is tried again, so
// that they come back in their order.
func behind(sequence, first uint64) time.Duration {
	return min(time.Duration(sequence-min(first, sequence))*rankDelay, maxRank)
}

// firstStored returns the sequence of the first notification of a chat from a sequence on, or 0.
func (o *order) firstStored(ctx context.Context, subject string, from uint64) (uint64, error) {
	m, err := o.bus.First(ctx, bus.Outbox, subject, from)
	return m.Sequence, err
}

// settled removes a stored notification that is settled, and reports whether it was. A cluster
// whose leader changes can count an acknowledgement and keep the message. No process gets that
// again, so it would hold up its chat for ever.
func (o *order) settled(ctx context.Context, sequence uint64) bool {
	info, ok, err := o.bus.ConsumerInfo(ctx, o.consumer)
	if err != nil || !ok || info.AckFloor.Stream < sequence {
		return false
	}
	if o.consumer.Passes(info.Config) { // somebody has changed it, and the floor passes what it does not deliver
		_ = o.bus.MarkPassed(ctx, info) // the next look tries it again
		return false
	}
	return o.bus.Delete(ctx, bus.Outbox, sequence) == nil
}

// join adds t to the line of its chat, unless that is full. Of a chat that waits, the line is
// not limited, because its notifications go back to the server at once.
func (o *order) join(t *turn) (behindFirst time.Duration, full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.chats[t.subject]
	if c == nil {
		o.forget()
		c = &chat{moved: make(chan struct{})}
		o.chats[t.subject] = c
	}
	if len(c.line) >= maxLine && time.Until(c.until) <= 0 && c.line[0].sequence < t.sequence {
		return behind(t.sequence, c.line[0].sequence), true
	}
	i, _ := slices.BinarySearchFunc(c.line, t.sequence+1, func(other *turn, next uint64) int { return int(other.sequence) - int(next) })
	c.line = slices.Insert(c.line, i, t) // behind one of the same sequence, whose lease has ended
	return 0, false
}

// leave removes t from the line. The caller holds the lock.
func (o *order) leave(t *turn) {
	c := o.chats[t.subject]
	c.line = slices.DeleteFunc(c.line, func(other *turn) bool { return other == t })
	if len(c.line) == 0 {
		c.sent = 0 // a chat that waits is kept, too
	}
	if len(c.line) == 0 && c.failures == 0 && time.Until(c.until) <= 0 {
		delete(o.chats, t.subject)
	}
	c.change()
}

// forget forgets failing chats that this process has nothing of. The caller holds the lock.
func (o *order) forget() {
	if len(o.chats) < o.limit {
		return
	}
	for subject, c := range o.chats {
		if len(c.line) == 0 && time.Until(c.until) <= 0 {
			delete(o.chats, subject)
		}
	}
	o.limit = 2*len(o.chats) + keptChats
}

// change wakes the notifications of the chat that wait in this process.
func (c *chat) change() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// look returns a copy of the chat, and the sequence before t in its line, or 0.
func (t *turn) look() (c chat, previous uint64) {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	c = *t.order.chats[t.subject]
	if t.sequence <= c.sent && t.published.After(c.at) { // the outbox was lost, and the new one begins at 1
		c.sent = 0
	}
	if i := slices.Index(c.line, t); i > 0 {
		previous = c.line[i-1].sequence
	}
	return c, previous
}

// block lets the chat wait for the process that has a notification.
func (t *turn) block(awaits uint64) {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	c := t.order.chats[t.subject]
	c.awaits, c.until = awaits, time.Now().Add(maxPoll)
	c.change()
}

// resume ends the wait for a notification, which another process has settled: the chat works.
func (t *turn) resume(awaited uint64) {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	if c := t.order.chats[t.subject]; c.awaits == awaited {
		c.until, c.failures = time.Time{}, 0
	}
}

// end ends the turn with the error of the attempt to send, and returns the verdict.
func (t *turn) end(err error) error {
	delay, postponed := consume.Postponed(err)
	_, rejected := consume.Rejected(err)
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.leave(t)
	c := o.chats[t.subject]
	switch {
	case err == nil:
		c.sent, c.at, c.failures = t.sequence, t.published, 0
	case rejected: // the next one waits until its dead letter is stored
		c.failures = 0
	default:
		c.failures++
		c.sent = 0 // a chat that fails is kept, and a new stream would begin at 1
		if !postponed {
			delay = consume.RetryDelay(c.failures)
			err = consume.RetryAfter(delay, err)
		}
		c.awaits, c.until = t.sequence, time.Now().Add(delay)
	}
	return err
}
