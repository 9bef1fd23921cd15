package bus

import (
	"context"
	"sync"
)

// slots limits how many messages a consumer handles at once.
type slots struct {
	mu    sync.Mutex
	free  int // negative if messages arrived for a request that had ended
	freed *sync.Cond
	waits bool
}

func newSlots(size int) *slots {
	s := &slots{free: size}
	s.freed = sync.NewCond(&s.mu)
	return s
}

// awaitFree waits until a slot is free or ctx ends, and returns the number of free slots.
func (s *slots) awaitFree(ctx context.Context) int {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.freed.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = true
	defer func() { s.waits = false }()
	for s.free <= 0 && ctx.Err() == nil {
		s.freed.Wait()
	}
	return s.free
}

func (s *slots) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free--
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.waits {
		s.freed.Broadcast()
	}
}
