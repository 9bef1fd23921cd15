package fair

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Pool is a number of slots that several consumers share, such as those of many tenants. A
// slot that is free goes to the consumer that holds the fewest. It is safe for concurrent use.
type Pool struct {
	mu     sync.Mutex
	free   int
	active int      // shares whose last request brought messages
	claims []*claim // that wait, in the order in which they came; then no slot is free
	freed  *sync.Cond
}

// Share is what one consumer holds of a pool. All its methods work without a pool: a nil Share
// has no limit.
type Share struct {
	pool   *Pool
	held   int
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

// Join adds a consumer. Without a pool, it returns nil.
func (p *Pool) Join() *Share {
	if p == nil {
		return nil
	}
	return &Share{pool: p}
}

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
	if p.free == 0 {
		defer context.AfterFunc(ctx, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.freed.Broadcast()
		})()
		for p.free == 0 && ctx.Err() == nil {
			p.freed.Wait()
		}
	}
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

func (s *Share) claim() (c *claim, taken bool) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 {
		p.free--
		s.held++
		return nil, true
	}
	c = &claim{s, make(chan struct{})}
	p.claims = append(p.claims, c)
	return c, false
}

// Free returns the number of free slots.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// Release frees a slot, or passes it on to the waiting consumer that holds the fewest.
func (s *Share) Release() {
	if s == nil {
		return
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.held--
	if len(p.claims) == 0 {
		p.free++
		p.freed.Broadcast()
		return
	}
	next := slices.MinFunc(p.claims, func(a, b *claim) int { return a.share.held - b.share.held })
	p.claims = slices.Delete(p.claims, slices.Index(p.claims, next), slices.Index(p.claims, next)+1)
	next.share.held++
	close(next.given)
}
