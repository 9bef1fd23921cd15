package consume

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
)

const (
	// trimInterval is the pause between two purges by the same process.
	trimInterval = 250 * time.Millisecond
	// purgePauses is how many times as long as a purge the pause after it is, up to maxPurgePause.
	// While 100,000 messages wait, the server counts them anew at each purge, which takes 60 ms.
	purgePauses, maxPurgePause = 50, 3 * time.Second
	// maxTrimInterval is the longest pause while a message that is not settled prevents
	// a purge.
	maxTrimInterval = 10 * time.Second
	// takeoverDelay is how long the other processes wait for the next purge before one of
	// them purges: between one and three times as long.
	takeoverDelay = time.Second
	// maxBehind and maxBytesBehind are how many settled messages, and bytes of them, a
	// process leaves behind a message that is not settled for long.
	maxBehind      = 500
	maxBytesBehind = 1 << 20
	// spaceLacks is for how long after a refused publish space is lacking.
	spaceLacks = 10 * time.Second
	// lastTimeout limits the round after the end.
	lastTimeout = time.Second
)

// trimmer removes the settled messages of a consumer from a stream that keeps
// acknowledged messages. One purge removes all that precede the first message that is not
// settled. If that message is not settled for long, such as a call that runs for a day,
// each process deletes the later ones that it has settled. A process that dies leaves a few
// of them behind until that call ends.
//
// Any process purges, and tells the others. The one that purged last does so again after
// trimInterval, and the others wait longer. So there is one purge at a time however many
// processes there are, and another process goes on if this one dies.
type trimmer struct {
	bus      *bus.Bus
	consumer bus.Consumer
	id       string        // in its hints
	wake     chan struct{} // has an element if messages were settled, or if none came: somebody may have changed the consumer
	purgedTo chan uint64   // the sequence up to which another process purged
	warned   time.Time
	floor    uint64    // the sequence up to which all were settled in the previous round
	created  time.Time // when the consumer was made, in the previous round
	passed   time.Time // when the consumer was made that has passed messages

	mu     sync.Mutex
	recent []settledMessage // since the last round
	old    []settledMessage // before that, and not removed
}

type settledMessage struct {
	sequence uint64
	size     int
}

func newTrimmer(b *bus.Bus, c bus.Consumer) *trimmer {
	return &trimmer{bus: b, consumer: c, id: nuid.Next(), wake: make(chan struct{}, 1), purgedTo: make(chan uint64, 16)}
}

// settled adds a message that needs no other delivery.
func (t *trimmer) settled(sequence uint64, size int) {
	if t.consumer.Trim == "" {
		return
	}
	t.mu.Lock()
	t.recent = append(t.recent, settledMessage{sequence, size})
	first := len(t.recent) == 1
	t.mu.Unlock()
	if first {
		signal(t.wake)
	}
}

// run trims until ctx ends, and then once more.
func (t *trimmer) run(ctx context.Context) {
	sub, err := t.bus.Conn().Subscribe(t.subject(), func(msg *nats.Msg) {
		if floor, err := strconv.ParseUint(string(msg.Data), 10, 64); err == nil && msg.Header.Get(trimmerHeader) != t.id {
			select {
			case t.purgedTo <- floor:
			default:
			}
		}
	})
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	}
	var purged uint64
	// The first round also removes what was left behind by processes that died.
	pause, shortest := trimInterval, trimInterval
	timer := time.NewTimer(pause + rand.N(pause))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			if t.forget(0) > 0 && !t.bus.Conn().IsClosed() {
				_, _ = t.round(last, purged) // another process does it otherwise
			}
			return
		case purged = <-t.purgedTo:
			t.forget(purged)
			pause = takeoverDelay + rand.N(2*takeoverDelay)
			timer.Reset(pause)
		case <-t.wake:
			if pause > maxPurgePause { // nothing happened for long
				pause = shortest
				timer.Reset(pause)
			}
		case <-timer.C:
			began := time.Now()
			floor, err := t.round(ctx, purged)
			shortest = min(max(trimInterval, purgePauses*time.Since(began)), maxPurgePause)
			t.bus.Space().Note(t.consumer.Trim, err) // the server answers no publish if its disk was full
			if err != nil && ctx.Err() == nil && time.Since(t.warned) > time.Minute {
				t.warned = time.Now()
				log := t.bus.Config().Log
				log.Warn().Err(err).Str("consumer", t.consumer.Name).Msg("cannot remove settled messages; their stream will be full")
			}
			switch {
			case t.lacksSpace():
				pause = trimInterval
			case floor != purged:
				pause = shortest
			default:
				pause = min(2*pause, maxTrimInterval)
			}
			purged = floor
			if t.forget(0) > 0 || t.floor != floor {
				timer.Reset(pause)
			} else {
				pause = maxTrimInterval // until wake
			}
		}
	}
}

// round removes the settled messages, and returns the sequence up to which all are.
func (t *trimmer) round(ctx context.Context, purged uint64) (floor uint64, err error) {
	cons, err := t.bus.JetStream().Consumer(ctx, t.bus.StreamName(t.consumer.Stream), t.consumer.Name)
	if err != nil {
		return purged, err
	}
	stream, err := t.bus.Stream(ctx, t.consumer.Stream)
	if err != nil {
		return purged, err
	}
	info := cons.CachedInfo()
	if !info.Created.Equal(t.created) && !t.created.IsZero() { // perhaps of a new stream, where others have these sequences
		t.floor = 0
		t.forget(math.MaxUint64)
	}
	t.created = info.Created
	if t.consumer.Passes(info.Config) || t.passed.Equal(info.Created) { // somebody has changed it, and the floor passes what it does not deliver
		t.passed = info.Created
		return purged, errors.Join(t.bus.MarkPassed(ctx, info), t.deleteBehind(ctx))
	}
	// Leave what was settled since the previous round: see rpc.Submit.
	floor, t.floor = t.floor, info.AckFloor.Stream
	if floor > 0 && floor != purged {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(t.consumer.Trim), jetstream.WithPurgeSequence(floor+1)); err != nil {
			return purged, err
		}
		_ = t.bus.Conn().PublishMsg(&nats.Msg{ // only a hint
			Subject: t.subject(), Header: nats.Header{trimmerHeader: {t.id}}, Data: strconv.AppendUint(nil, floor, 10),
		})
	}
	t.forget(floor)
	return floor, t.deleteBehind(ctx)
}

// deleteBehind deletes messages that were settled before the previous round, if there are
// many that precede no purge.
func (t *trimmer) deleteBehind(ctx context.Context) error {
	t.mu.Lock()
	var size int
	for _, m := range t.old {
		size += m.size
	}
	var behind []uint64
	if len(t.old) >= maxBehind || size >= maxBytesBehind || t.lacksSpace() {
		for _, m := range t.old {
			behind = append(behind, m.sequence)
		}
		t.old = nil
	}
	t.old, t.recent = append(t.old, t.recent...), nil
	t.mu.Unlock()

	return t.bus.DeleteAll(ctx, t.consumer.Stream, behind)
}

// lacksSpace reports whether the server refused a publish of this process just now. Then no
// settled message stays: neither it nor its result can make room otherwise.
func (t *trimmer) lacksSpace() bool {
	r, ok := t.bus.Space().LastRefusal()
	return ok && time.Since(r.At) < spaceLacks
}

// forget drops the messages up to floor, and returns how many are left.
func (t *trimmer) forget(floor uint64) (left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := func(m settledMessage) bool { return m.sequence <= floor }
	t.recent, t.old = slices.DeleteFunc(t.recent, gone), slices.DeleteFunc(t.old, gone)
	return len(t.recent) + len(t.old)
}

// trimmerHeader names the trimmer that sent a hint.
const trimmerHeader = "Stevedore-Trimmer"

// subject is for the hints of the processes that consume the same messages. No stream
// captures it.
func (t *trimmer) subject() string {
	return t.bus.RPC("trimmed", t.consumer.Stream, t.consumer.Name)
}
