package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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

// space wakes the publishes that wait because a stream is full.
type space struct {
	subscribe sync.Once
	refused   chan struct{} // has an element if the server refused a publish

	mu     sync.Mutex
	freed  chan struct{} // closed at the next hint
	logged time.Time
}

func newSpace() *space { return &space{refused: make(chan struct{}, 1), freed: make(chan struct{})} }

// Refusals receives after the server refused a publish of this process for a lack of space.
// Several refusals may be one element.
func (b *Bus) Refusals() <-chan struct{} { return b.space.refused }

// SpaceFreed wakes the publishes of all processes that wait for space in a stream.
func (b *Bus) SpaceFreed(stream string) {
	b.space.wake()
	_ = b.nc.PublishMsg(&nats.Msg{Subject: b.RPC("trimmed", stream)}) // only a hint
}

func (s *space) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.freed)
	s.freed = make(chan struct{})
}

// next returns a channel that is closed at the next hint.
func (s *space) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}

func (s *space) refuse() {
	select {
	case s.refused <- struct{}{}:
	default:
	}
}

// publishWaiting repeats a publish that was refused for a lack of space, until there is
// space or its timeout has passed. The process that removes records tells the others.
func (b *Bus) publishWaiting(ctx context.Context, m Message) (ack Ack, err error) {
	b.space.subscribe.Do(func() {
		if _, err := b.nc.Subscribe(b.RPC("trimmed", "*"), func(*nats.Msg) { b.space.wake() }); err != nil {
			b.log.Warn().Err(err).Msg("cannot subscribe to hints about free space")
		}
	})
	began, pause := time.Now(), firstSpacePause
	for {
		freed := b.space.next() // before the publish, so that no hint is missed
		ack, err = b.publishAgain(ctx, m)
		if !errors.Is(err, ErrFull) || m.Timeout != NoTimeout && time.Since(began) >= m.timeout() {
			return ack, err
		}
		b.logFull(ctx, m.Subject, err)
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

// logFull logs at most one line in fullInterval.
func (b *Bus) logFull(ctx context.Context, subject string, err error) {
	b.space.mu.Lock()
	due := time.Since(b.space.logged) >= fullInterval
	if due {
		b.space.logged = time.Now()
	}
	b.space.mu.Unlock()
	if due {
		b.log.Warn().Err(b.explainFull(ctx, subject, err)).Str("subject", subject).Msg("a publish waits for space")
	}
}
