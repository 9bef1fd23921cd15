package bus

import (
	"context"
	"sync"
	"time"
)

// Slots limits how many messages one or more consumers handle at once.
type Slots struct {
	size int

	mu    sync.Mutex
	inUse int
	freed *sync.Cond
	waits int // goroutines that wait on freed
}

// NewSlots returns free slots.
func NewSlots(size int) *Slots {
	s := &Slots{size: size}
	s.freed = sync.NewCond(&s.mu)
	return s
}

// awaitFree waits until a slot is free, until timeout (0: none), or until ctx ends. It
// returns the number of free slots. It takes none of them, so another consumer may be
// faster.
func (s *Slots) awaitFree(ctx context.Context, timeout time.Duration) int {
	return s.wait(ctx, timeout, func() int { return s.size - s.inUse })
}

// take takes a slot, and waits for it like awaitFree. It reports whether it has one.
func (s *Slots) take(ctx context.Context, timeout time.Duration) bool {
	return s.wait(ctx, timeout, func() int {
		if s.inUse >= s.size {
			return 0
		}
		s.inUse++
		return 1
	}) > 0
}

// tryTake is take without waiting.
func (s *Slots) tryTake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse >= s.size {
		return false
	}
	s.inUse++
	return true
}

// wait calls f until it returns more than 0, ctx ends, or timeout has passed.
func (s *Slots) wait(ctx context.Context, timeout time.Duration, f func() int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := f(); n > 0 && ctx.Err() == nil {
		return n
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.freed.Broadcast()
	})()
	s.waits++
	defer func() { s.waits-- }()
	for ctx.Err() == nil {
		if n := f(); n > 0 {
			return n
		}
		s.freed.Wait()
	}
	return 0
}

// release frees a slot.
func (s *Slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse--
	if s.waits > 0 {
		s.freed.Broadcast()
	}
}
