package cron

import (
	"context"
	"sync"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// counts counts the jobs of each session. It reads each job once, because reading all
// jobs for each new one takes longer the more there are.
type counts struct {
	bus *bus.Bus

	mu     sync.Mutex
	next   uint64            // sequence of the first message that was not read
	owners map[string]string // session tokens by subject
	jobs   map[string]int    // by session token
}

func newCounts(b *bus.Bus) *counts {
	c := &counts{bus: b}
	c.reset()
	return c
}

func (c *counts) reset() { c.next, c.owners, c.jobs = 1, map[string]string{}, map[string]int{} }

// of returns the number of jobs of a session. If that is below MaxJobs, it may include
// jobs that were removed or have ended. Concurrent calls may exceed the limit, which
// does no harm.
func (c *counts) of(ctx context.Context, session string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.read(ctx)
	if err == nil && c.jobs[session] >= MaxJobs { // count only those that exist now
		c.reset()
		err = c.read(ctx)
	}
	return c.jobs[session], err
}

// read reads the jobs that were stored since the last read.
func (c *counts) read(ctx context.Context) error {
	return c.bus.ScanAfter(ctx, bus.Ticks, c.bus.Schedule(bus.Cron, "*"), c.next-1, func(m bus.Stored) {
		c.next = m.Sequence + 1
		owner, known := c.owners[m.Subject]
		if known {
			c.jobs[owner]--
		}
		delete(c.owners, m.Subject)
		if tick, err := tools.DecodeTick(m.Body); err == nil {
			owner = tools.Call{Session: tick.Session}.SessionToken()
			c.owners[m.Subject] = owner
			c.jobs[owner]++
		}
	})
}
