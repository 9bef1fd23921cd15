package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

const (
	// maxSleep bounds the wait for the next due call, because the clock may jump.
	maxSleep = time.Minute
	// resumeRetry is the pause after a call could not be published.
	resumeRetry = 5 * time.Second
	// LookAgain is how long a call waits at least for others that are parked, if it has no earlier deadline. They may be
	// due too, or this process may have missed their records: then it finds them parked, and is parked again.
	LookAgain = time.Second
	// watchRetry is the pause after the watch of the records ended.
	watchRetry = time.Second
	// clockInterval is how often the time of the server is read while calls are parked.
	clockInterval = 30 * time.Second
)

// FollowerConfig configures a Follower.
type FollowerConfig struct {
	// Cancelled stops a running call, and keeps a call that arrives later from starting.
	// Expired reports that the record of the cancellation is gone.
	Cancelled, Expired func(k tools.CallKey)
	// Stop stops a running call and has no effect on other calls: a client published to the
	// subject Cancel, which stores no record.
	Stop func(k tools.CallKey)
	Log  zerolog.Logger
}

// Follower follows the records of all calls for a worker. It reports cancellations, and
// resumes each parked call when it is due: its time has come, it was answered, or a call that
// it waits for is no longer parked. Every worker runs one; the server drops what they publish
// twice.
type Follower struct {
	bus  *bus.Bus
	cfg  FollowerConfig
	wake chan struct{}

	mu    sync.Mutex
	calls map[tools.CallKey]waitingCall
	ahead map[tools.CallKey]uint64 // Record.Ahead
	ready bool
	// watching is set while the watch has not ended. reconnects is how often the connection was lost before it began.
	watching   bool
	reconnects uint64
	// serverTime is the time of the server at measured.
	serverTime, measured time.Time
}

// waitingCall is a parked call.
type waitingCall struct {
	Parked
	answered bool
	retryAt  time.Time // not before, because the call could not be published
}

// NewFollower returns a follower that is not running yet.
func NewFollower(b *bus.Bus, cfg FollowerConfig) *Follower {
	return &Follower{bus: b, cfg: cfg, wake: make(chan struct{}, 1), calls: map[tools.CallKey]waitingCall{}, ahead: map[tools.CallKey]uint64{}}
}

// Find returns the wait of a call that is parked, with the Number 0 if it is not. wasAhead is set if
// a worker started the call with this message before the consumer of the queue delivered it.
func (f *Follower) Find(k tools.CallKey, sequence uint64) (p Parked, wasAhead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[k].Parked, f.ahead[k] == sequence
}

// IsCurrent reports whether Run hears of changes as they happen. After a loss of the connection, the server delivers calls of which
// it may know less than others, until it has begun another watch.
func (f *Follower) IsCurrent() bool {
	reconnects := f.bus.Conn().Stats().Reconnects
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watching && f.reconnects == reconnects
}

// Add adds a call that this process has just parked, before Run hears of it.
func (f *Follower) Add(p Parked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[p.Key()].Number < p.Number {
		f.calls[p.Key()] = waitingCall{Parked: p}
	}
}

// Run follows the records until ctx ends. It calls onReady once, when it knows all of them.
// Later, it begins again whenever the watch ends: the library ends one whose consumer the
// server has lost and cannot create at once. It also begins again after a loss of the connection: the library
// needs 10 s to notice that a server which was restarted has lost the consumer.
func (f *Follower) Run(ctx context.Context, onReady func()) error {
	stops, err := f.bus.Conn().Subscribe(f.bus.Subjects.Cancel("*", "*"), func(msg *nats.Msg) {
		if tokens := f.bus.Split(msg.Subject); len(tokens) == 3 {
			f.cfg.Stop(tools.CallKey{Session: tokens[1], ID: tokens[2]})
		}
	})
	if err != nil {
		return fmt.Errorf("watch cancellations: %w", err)
	}
	defer func() { _ = stops.Unsubscribe() }() // fails only if the connection is closed
	var resuming sync.WaitGroup
	defer resuming.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resuming.Go(func() { f.resumeDue(ctx) })
	onReady = sync.OnceFunc(onReady)
	connected := f.bus.Conn().StatusChanged(nats.CONNECTED)
	defer f.bus.Conn().RemoveStatusListener(connected)
	ended := false // has a watch ended? Before, its error is permanent, such as that of a missing bucket
	return retry.Do(ctx, backoff.NewConstantBackOff(watchRetry), func(err error) bool {
		ended = ended || errors.Is(err, errWatchEnded)
		return !ended || bus.IsClosed(err)
	}, retry.Warn(f.cfg.Log, "cannot watch the records of calls"), func() error {
		for {
			for len(connected) > 0 {
				<-connected
			}
			reconnects := f.bus.Conn().Stats().Reconnects
			err := watchRecords(ctx, f.bus, connected, f.apply, func() {
				f.mu.Lock()
				f.ready, f.watching, f.reconnects = true, true, reconnects
				f.mu.Unlock()
				onReady()
				f.notify()
			})
			f.mu.Lock()
			f.watching = false
			f.mu.Unlock()
			if !errors.Is(err, errReconnected) {
				return err
			}
			ended = true
		}
	})
}

func (f *Follower) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// apply applies a change of a record.
func (f *Follower) apply(r Record) {
	if r.Cancelled.IsZero() {
		f.cfg.Expired(r.key)
	} else {
		f.cfg.Cancelled(r.key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Ahead == 0 {
		delete(f.ahead, r.key)
	} else {
		f.ahead[r.key] = r.Ahead
	}
	switch known := f.calls[r.key]; {
	case r.Parked != nil && known.Number <= r.Parks:
		f.calls[r.key] = waitingCall{Parked: *r.Parked, answered: r.Answer != nil, retryAt: known.retryAt}
	case r.Parked == nil && known.Number <= r.Parks: // otherwise, Add was faster
		delete(f.calls, r.key)
	}
	f.notify()
}

// resumeDue resumes calls when they are due, until ctx ends.
func (f *Follower) resumeDue(ctx context.Context) {
	for ctx.Err() == nil {
		f.readClock(ctx)
		due, sleep := f.due()
		for _, p := range due {
			err := Resume(ctx, f.bus, p)
			if ctx.Err() != nil {
				return
			}
			f.mu.Lock()
			if c := f.calls[p.Key()]; c.Number == p.Number && err == nil {
				delete(f.calls, p.Key())
			} else if c.Number == p.Number {
				retry.Warn(f.cfg.Log, "cannot resume a parked call")(err, resumeRetry)
				c.retryAt = f.now().Add(resumeRetry)
				f.calls[p.Key()] = c
			}
			f.mu.Unlock()
		}
		if len(due) > 0 {
			continue
		}
		timer := time.NewTimer(sleep)
		select {
		case <-ctx.Done():
		case <-f.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// readClock reads the time of the server if it was read long ago. All workers must agree on
// the time: a worker whose clock is ahead would end the time for an approval too early.
func (f *Follower) readClock(ctx context.Context) {
	f.mu.Lock()
	fresh := !f.serverTime.IsZero() && (len(f.calls) == 0 || time.Since(f.measured) < clockInterval)
	f.mu.Unlock()
	if fresh {
		return
	}
	now, err := ServerTime(ctx, f.bus)
	if err != nil {
		f.cfg.Log.Debug().Err(err).Msg("cannot read the time of the server")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serverTime, f.measured = now, time.Now()
}

// ServerTime returns the time by the clock of the server.
func ServerTime(ctx context.Context, b *bus.Bus) (time.Time, error) {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err != nil {
		return time.Time{}, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the server: %w", err)
	}
	info, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok || info.StreamInfo().TimeStamp.IsZero() {
		return time.Time{}, errors.New("read the time of the server: it does not tell")
	}
	return info.StreamInfo().TimeStamp, nil
}

// now returns the time of the server, or that of this machine if the server never answered.
// The local clock may jump, so it only counts the time since the last answer.
func (f *Follower) now() time.Time {
	if f.serverTime.IsZero() {
		return time.Now()
	}
	return f.serverTime.Add(time.Since(f.measured))
}

// due returns the calls that are due, and how long to sleep until the next one.
func (f *Follower) due() (due []Parked, sleep time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	sleep = maxSleep
	if !f.ready {
		return nil, sleep
	}
	for _, c := range f.calls {
		at := c.DueAt()
		for _, other := range c.WaitsFor {
			if _, parked := f.calls[other]; !parked {
				at = c.dueAfter(min(LookAgain, c.Until.Sub(c.Since)))
			}
		}
		if c.State == InputRequired && c.answered {
			at = now
		}
		if c.retryAt.After(at) {
			at = c.retryAt
		}
		if at.After(now) {
			sleep = min(sleep, at.Sub(now))
		} else {
			due = append(due, c.Parked)
		}
	}
	return due, sleep
}

// WatchParked calls changed when the record of a call changes, until ctx ends. It needs no
// consumer, so it misses the changes that happen while the connection is interrupted.
func WatchParked(ctx context.Context, b *bus.Bus, changed func()) error {
	sub, err := b.Conn().Subscribe(b.EntrySubject(recordKey+".>"), func(*nats.Msg) { changed() })
	if err != nil {
		return fmt.Errorf("watch parked calls: %w", err)
	}
	<-ctx.Done()
	_ = sub.Unsubscribe() // fails only if the connection is closed
	return nil
}
