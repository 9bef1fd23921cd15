// Package fair shares slots among those who wait for them. Of a consumer of messages, Shares says
// whose turn it is, and Slots counts what is free. A Pool has the slots that several consumers
// share, such as many tenants, and the sessions of a tenant.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package fair

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Pool is a number of slots that several consumers share. A slot that is free goes to the
// consumer that holds the fewest, and among these to the one that got none for the longest time.
// It is safe for concurrent use.
type Pool struct {
	mu     sync.Mutex
	free   int
	given  int      // slots so far
	active int      // shares whose last request brought messages
	claims []*claim // that wait, in the order in which they came; no free slot is for them
	freed  *sync.Cond
}

// Share is what one consumer holds of a pool. All its methods work without a pool: a nil Share
// has no limit.
type Share struct {
	pool   *Pool
	of     *Share // what this share is a part of, or nil
	most   int    // slots that it may hold; 0 means no limit
	held   int
	last   int // which of the slots that the pool gave it got last
	active bool
}

type claim struct {
	share *Share
	given chan struct{} // closed with the slot, under the lock of the pool
}

// NewPool returns a pool of so many slots.
func NewPool(size int) *Pool {
	p := &Pool{free: size}
	p.freed = sync.NewCond(&p.mu)
	return p
}

// Join adds a consumer that may hold so many slots; 0 means no limit. Without a pool, it returns
// nil.
func (p *Pool) Join(most int) *Share {
	if p == nil {
		return nil
	}
	return &Share{pool: p, most: most}
}

// Join adds a part of a consumer, such as a session of a tenant. What the part holds, the consumer
// holds too.
func (s *Share) Join(most int) *Share { return &Share{pool: s.pool, of: s, most: most} }

// Ask waits until a slot is free or ctx ends, and returns for how many messages the consumer may
// ask, most at most. A consumer that was idle asks for one: while it waits for a message, others
// may use the slots. So more messages may arrive than there are slots; see Take.
func (s *Share) Ask(ctx context.Context, most int) int {
	if s == nil {
		return most
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	await(ctx, p.freed, func() bool { return p.free > 0 })
	if !s.active {
		return 1
	}
	return min(most, max(p.free/p.active, 1))
}

// Received notes how many messages a request has brought.
func (s *Share) Received(received int) {
	if s == nil || s.active == (received > 0) {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.active = received > 0; s.active {
		s.pool.active++
	} else {
		s.pool.active--
	}
}

// Take takes a slot for a message that has arrived. If no slot becomes free within timeout, it
// reports false: another process may have one.
func (s *Share) Take(ctx context.Context, timeout time.Duration) bool {
	if s == nil {
		return true
	}
	c, taken := s.claim()
	if taken {
		return true
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.given:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.claims, c)
	if i >= 0 {
		p.claims = slices.Delete(p.claims, i, i+1)
	}
	return i < 0 // it was given at the last moment
}

// TryTake takes a slot if one is free.
func (s *Share) TryTake() bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.takeLocked()
}

func (s *Share) claim() (c *claim, taken bool) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.takeLocked() {
		return nil, true
	}
	c = &claim{s, make(chan struct{})}
	p.claims = append(p.claims, c)
	return c, false
}

func (s *Share) takeLocked() bool {
	p := s.pool
	if p.free == 0 || s.isFullLocked() {
		return false
	}
	p.free--
	p.given++
	for ; s != nil; s = s.of {
		s.held++
		s.last = p.given
	}
	return true
}

// isFullLocked reports whether the share, or what it is a part of, holds as much as it may.
func (s *Share) isFullLocked() bool {
	return s != nil && (s.most > 0 && s.held >= s.most || s.of.isFullLocked())
}

// compare is negative if a slot is rather for a than for b.
func compare(a, b *Share) int {
	if a == b {
		return 0
	}
	if a.of != nil && b.of != nil {
		if c := compare(a.of, b.of); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(a.last, b.last))
}

// Held returns the number of slots that the share holds.
func (s *Share) Held() int {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.held
}

// Free returns the number of free slots.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// Release frees a slot, or passes it on to a consumer that waits.
func (s *Share) Release() {
	if s == nil {
		return
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	for ; s != nil; s = s.of {
		s.held--
	}
	var next *claim
	for _, c := range p.claims {
		if !c.share.isFullLocked() && (next == nil || compare(c.share, next.share) < 0) {
			next = c
		}
	}
	if next == nil {
		p.freed.Broadcast()
		return
	}
	p.claims = slices.DeleteFunc(p.claims, func(c *claim) bool { return c == next })
	next.share.takeLocked()
	close(next.given)
}
