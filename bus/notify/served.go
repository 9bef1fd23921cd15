package notify

import (
	"context"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// answerAge is how long an answer about a channel is believed.
const answerAge = 5 * time.Second

// served knows which channels somebody delivers to (bus.ChannelServed).
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
	yes, err := s.bus.ChannelServed(ctx, channel)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) > 1000 { // the names come from outside
		clear(s.known)
	}
	s.known[channel] = answer{yes: yes, at: time.Now()}
	return yes, nil
}
