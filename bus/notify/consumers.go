package notify

import (
	"context"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// consumerMaxAge is how long a cached answer about a consumer is used.
const consumerMaxAge = 5 * time.Second

// consumers caches which channels have a consumer, in this or another process.
type consumers struct {
	bus *bus.Bus

	mu    sync.Mutex
	known map[string]consumerState
}

type consumerState struct {
	exists bool
	at     time.Time
}

func (c *consumers) exists(ctx context.Context, channel string) (bool, error) {
	c.mu.Lock()
	last, ok := c.known[channel]
	c.mu.Unlock()
	if ok && time.Since(last.at) < consumerMaxAge {
		return last.exists, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, exists, err := c.bus.ConsumerInfo(ctx, c.bus.ChannelConsumer(channel))
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) > 1000 { // clients choose the names
		clear(c.known)
	}
	c.known[channel] = consumerState{exists: exists, at: time.Now()}
	return exists, nil
}
