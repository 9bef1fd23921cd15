package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxSleep bounds the wait for the next due call, because the clock may jump.
	maxSleep = time.Minute
	// resumeRetry is the pause after a call could not be published.
	resumeRetry = 5 * time.Second
)

// ParkedCalls follows all parked calls of a bus and resumes each when it is due: its time
// has come, it was answered, or the call that it waits for is no longer parked. Every
// worker runs one; the server drops what they publish twice.
type ParkedCalls struct {
	bus  *bus.Bus
	log  zerolog.Logger
	wake chan struct{}

	mu       sync.Mutex
	calls    map[tools.CallKey]Parked
	answered map[tools.CallKey]bool
	retryAt  map[tools.CallKey]time.Time
	ready    bool
	// serverTime is the time of the server at measured.
	serverTime, measured time.Time
}

// NewParkedCalls returns the parked calls of a bus. Run follows them.
func NewParkedCalls(b *bus.Bus, log zerolog.Logger) *ParkedCalls {
	return &ParkedCalls{
		bus: b, log: log, wake: make(chan struct{}, 1),
		calls: map[tools.CallKey]Parked{}, answered: map[tools.CallKey]bool{}, retryAt: map[tools.CallKey]time.Time{},
	}
}

// Find returns a parked call.
func (c *ParkedCalls) Find(k tools.CallKey) (Parked, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.calls[k]
	return p, ok
}

// Add adds a call that this process has just parked, before Run hears of it.
func (c *ParkedCalls) Add(p Parked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[p.Key()].Revision < p.Revision {
		c.calls[p.Key()] = p
	}
}

// Run follows and resumes the calls until ctx ends. It calls onReady once it knows all of
// them.
func (c *ParkedCalls) Run(ctx context.Context, onReady func()) error {
	watcher, err := bus.WatchKeys(ctx, c.bus, bus.TasksBucket, parkedKey+".*.*", answerKey+".*.*")
	if err != nil {
		return fmt.Errorf("follow parked calls: %w", err)
	}
	defer func() { _ = watcher.Stop() }() // fails if ctx ended the watch first
	var resuming sync.WaitGroup
	defer resuming.Wait()
	resuming.Go(func() { c.resumeDue(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case entry, ok := <-watcher.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return nil
			case !ok:
				return errors.New("follow parked calls: the watch ended")
			case entry == nil:
				c.mu.Lock()
				c.ready = true
				c.mu.Unlock()
				onReady()
			default:
				c.apply(entry)
			}
			c.notify()
		}
	}
}

func (c *ParkedCalls) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// apply applies a change of a record.
func (c *ParkedCalls) apply(entry jetstream.KeyValueEntry) {
	tokens := strings.Split(entry.Key(), ".")
	if len(tokens) != 3 {
		return // not written by this package
	}
	k := tools.CallKey{Session: tokens[1], ID: tokens[2]}
	c.mu.Lock()
	defer c.mu.Unlock()
	isPut := entry.Operation() == jetstream.KeyValuePut
	switch {
	case tokens[0] == answerKey && isPut:
		c.answered[k] = true
	case tokens[0] == answerKey:
		delete(c.answered, k)
	case !isPut:
		if c.calls[k].Revision < entry.Revision() {
			delete(c.calls, k)
			delete(c.retryAt, k)
		}
	default:
		p, err := decodeParked(entry)
		if err != nil {
			c.log.Error().Err(err).Msg("ignoring the record of a parked call")
			return
		}
		if c.calls[k].Revision <= p.Revision { // Add does not know when the server stored it
			c.calls[k] = p
			delete(c.retryAt, k)
		}
	}
}

// resumeDue resumes calls when they are due, until ctx ends.
func (c *ParkedCalls) resumeDue(ctx context.Context) {
	for {
		c.readClock(ctx)
		due, sleep := c.due()
		for _, p := range due {
			err := Resume(ctx, c.bus, p)
			if ctx.Err() != nil {
				return
			}
			c.mu.Lock()
			if err != nil {
				c.log.Warn().Err(err).Dur("retry_in", resumeRetry).Msg("cannot resume a parked call")
				c.retryAt[p.Key()] = c.now().Add(resumeRetry)
			} else if c.calls[p.Key()].Revision == p.Revision {
				delete(c.calls, p.Key())
			}
			c.mu.Unlock()
		}
		if len(due) > 0 {
			continue
		}
		timer := time.NewTimer(sleep)
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// clockInterval is how often the time of the server is read while calls are parked.
const clockInterval = 30 * time.Second

// readClock reads the time of the server if it was read long ago. All workers must agree on
// the time: a worker whose clock is ahead would end the time for an approval too early.
func (c *ParkedCalls) readClock(ctx context.Context) {
	c.mu.Lock()
	fresh := !c.serverTime.IsZero() && (len(c.calls) == 0 || time.Since(c.measured) < clockInterval)
	c.mu.Unlock()
	if fresh {
		return
	}
	now, err := serverTime(ctx, c.bus)
	if err != nil {
		c.log.Debug().Err(err).Msg("cannot read the time of the server")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serverTime, c.measured = now, time.Now()
}

// now returns the time of the server, or that of this machine if the server never answered.
// The local clock may jump, so it only counts the time since the last answer.
func (c *ParkedCalls) now() time.Time {
	if c.serverTime.IsZero() {
		return time.Now()
	}
	return c.serverTime.Add(time.Since(c.measured))
}

// Answered reports whether a parked call was answered, or is due because its time has passed.
// parked is false if its record is gone.
func (c *ParkedCalls) Answered(k tools.CallKey) (answered, parked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, parked := c.calls[k]
	return parked && (c.answered[k] || !c.now().Before(p.DueAt())), parked
}

// due returns the calls that are due, and how long to sleep until the next one.
func (c *ParkedCalls) due() (due []Parked, sleep time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	sleep = maxSleep
	if !c.ready {
		return nil, sleep
	}
	for k, p := range c.calls {
		if p.Held != "" {
			continue // the worker that holds its message continues it
		}
		at := p.DueAt()
		for _, other := range p.WaitsFor {
			if _, parked := c.calls[other]; !parked {
				at = now
			}
		}
		if p.State == InputRequired && c.answered[k] {
			at = now
		}
		if retry := c.retryAt[k]; retry.After(at) {
			at = retry
		}
		if at.After(now) {
			sleep = min(sleep, at.Sub(now))
		} else {
			due = append(due, p)
		}
	}
	return due, sleep
}

// serverTime returns the time by the clock of the server.
func serverTime(ctx context.Context, b *bus.Bus) (time.Time, error) {
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
