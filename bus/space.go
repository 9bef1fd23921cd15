package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// firstSpacePause and maxSpacePause limit the pause of a publish that waits for space
	// and receives no hint.
	firstSpacePause = 100 * time.Millisecond
	maxSpacePause   = 5 * time.Second
	// hintPause is the pause after a hint. It spreads the publishes that it wakes.
	hintPause = 50 * time.Millisecond
	// fullInterval is the time between two log lines about full streams.
	fullInterval = time.Minute
)

// Space is what this process knows about a lack of space in the streams: it wakes the
// publishes that wait for space, and remembers the last one that was refused.
type Space struct {
	b         *Bus
	subscribe sync.Once
	refused   chan struct{} // has an element if the server refused a publish
	last      atomic.Pointer[Refusal]
	mended    atomic.Pointer[Refusal] // the last one after which its stream stored something
	fills     sync.Map                // by stream: knownFill

	mu     sync.Mutex
	freed  chan struct{} // closed at the next hint
	logged time.Time
}

// Refusal is a publish of this process that the server refused for a lack of space.
type Refusal struct {
	Subject string
	Err     error // ErrFull
	At      time.Time
}

func newSpace(b *Bus) *Space {
	return &Space{b: b, refused: make(chan struct{}, 1), freed: make(chan struct{})}
}

// Space returns what this process knows about a lack of space.
func (b *Bus) Space() *Space { return b.space }

// Refused receives after the server refused a publish of this process. Several refusals may be
// one element.
func (s *Space) Refused() <-chan struct{} { return s.refused }

// LastRefusal returns the last refusal, or ok false if there was none.
func (s *Space) LastRefusal() (r Refusal, ok bool) {
	if last := s.last.Load(); last != nil {
		return *last, true
	}
	return Refusal{}, false
}

// Refusing is LastRefusal, but not ok if the stream of its subject has stored something since.
func (s *Space) Refusing() (r Refusal, ok bool) {
	if s.last.Load() == s.mended.Load() {
		return Refusal{}, false
	}
	return s.LastRefusal()
}

// Note notes the outcome of a request that stores or removes something in the stream of a subject.
func (s *Space) Note(subject string, err error) {
	switch refused, last := classify(err), s.last.Load(); {
	case errors.Is(refused, ErrFull):
		s.last.Store(&Refusal{subject, refused, time.Now()})
		select {
		case s.refused <- struct{}{}:
		default:
		}
	case err == nil && last != nil && last != s.mended.Load():
		stream, ok := s.b.streamOf(last.Subject)
		if now, _ := s.b.streamOf(subject); last.Subject == subject || ok && now == stream {
			s.mended.Store(last)
		}
	}
}

// Free wakes the publishes of all processes that wait for space in a stream, and the consumers
// that wait for a new stream.
func (s *Space) Free(stream string) {
	s.wake()
	_ = s.b.nc.PublishMsg(&nats.Msg{Subject: s.b.RPC("trimmed", stream)}) // only a hint
}

func (s *Space) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.freed)
	s.freed = make(chan struct{})
}

// hint returns a channel that is closed when a process has called Free.
func (s *Space) hint() <-chan struct{} {
	s.subscribe.Do(func() {
		if _, err := s.b.nc.Subscribe(s.b.RPC("trimmed", "*"), func(*nats.Msg) { s.wake() }); err != nil {
			s.b.log.Warn().Err(err).Msg("cannot subscribe to hints about free space")
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}

// untilSpace repeats a publish that was refused for a lack of space, until there is
// space or its timeout has passed. The process that removes records tells the others.
func (p publication) untilSpace(ctx context.Context) (ack Ack, err error) {
	s := p.b.space
	began, pause := time.Now(), firstSpacePause
	for {
		freed := s.hint() // before the publish, so that no hint is missed
		ack, err = p.again(ctx)
		if !errors.Is(err, ErrFull) || p.Timeout != NoTimeout && time.Since(began) >= p.timeout() {
			return ack, err
		}
		s.log(ctx, p.Subject, err)
		wait := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
		case <-wait.C:
			pause = min(2*pause, maxSpacePause)
		case <-freed:
			pause = firstSpacePause
			wait.Reset(rand.N(hintPause))
			select {
			case <-ctx.Done():
			case <-wait.C:
			}
		}
		wait.Stop()
		if ctx.Err() != nil {
			return ack, fmt.Errorf("%w; before that: %w", ctx.Err(), err)
		}
	}
}

// log logs at most one line in fullInterval.
func (s *Space) log(ctx context.Context, subject string, err error) {
	s.mu.Lock()
	due := time.Since(s.logged) >= fullInterval
	if due {
		s.logged = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.b.log.Warn().Err(s.explain(ctx, subject, err)).Str("subject", subject).Msg("a publish waits for space")
	}
}

// explain returns an ErrFull with the reason: which stream is full, and what helps.
func (s *Space) explain(ctx context.Context, subject string, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, ok := s.b.streamOf(subject)
	if !ok {
		return err
	}
	f, lookup := s.recentFill(ctx, stream)
	switch {
	case lookup != nil: // perhaps the client may not read it
		return err
	case f.Ratio() < FillWarning && f.MaxBytes > 16*s.b.nc.MaxPayload():
		return fmt.Errorf("%w, although %s: the server has no space for it; remove artifacts and "+
			"sweep, free space on its disk, or raise the limit of the account", err, f)
	}
	full := f.Full()
	if stream != Results { // workers wait for this one, and then calls pile up
		if results, lookup := s.recentFill(ctx, Results); lookup == nil && results.Ratio() >= NearlyFull {
			return &FullError{results, fmt.Sprintf("%v: %s, because %v", ErrFull, f, results.Full())}
		}
	}
	return fmt.Errorf("%w: %w", ErrFull, full)
}

// fillAge is how long recentFill remembers a fill: many publishes are rejected at once.
const fillAge = time.Second

type knownFill struct {
	Fill
	at time.Time
}

func (s *Space) recentFill(ctx context.Context, stream string) (Fill, error) {
	if v, ok := s.fills.Load(stream); ok && time.Since(v.(knownFill).at) < fillAge {
		return v.(knownFill).Fill, nil
	}
	f, err := ReadFill(ctx, s.b, stream)
	if err == nil {
		s.fills.Store(stream, knownFill{f, time.Now()})
	}
	return f, err
}
