package notify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// answerAge is how long an answer about a channel is believed.
const answerAge = 5 * time.Second

// served knows which channels somebody delivers to, in whatever process: those
// that have a durable consumer. That stays when the process is down, so that
// its notifications wait for it.
type served struct {
	bus *bus.Bus

	mu    sync.Mutex
	known map[string]answer
}

type answer struct {
	yes bool
	at  time.Time
}

// by reports whether somebody delivers to a channel.
func (s *served) by(ctx context.Context, channel string) (bool, error) {
	s.mu.Lock()
	last, ok := s.known[channel]
	s.mu.Unlock()
	if ok && time.Since(last.at) < answerAge {
		return last.yes, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := s.bus.ChannelConsumer(channel)
	_, err := s.bus.JetStream().Consumer(ctx, s.bus.StreamName(c.Stream), c.Name)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, fmt.Errorf("look up channel %q: %w", channel, err)
	}
	yes := err == nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) > 1000 { // the names come from outside
		clear(s.known)
	}
	s.known[channel] = answer{yes: yes, at: time.Now()}
	return yes, nil
}
