package bus

import (
	"context"
	"sync"
)

// slots counts what a consumer may still take.
type slots struct {
	wake chan struct{} // holds a token when slots may be free

	mu   sync.Mutex
	free int
}

func newSlots(size int) *slots {
	return &slots{free: size, wake: make(chan struct{}, 1)}
}

// reserve takes all free slots, waiting for one at least; it returns 0 when ctx
// ended.
func (s *slots) reserve(ctx context.Context) int {
	for ctx.Err() == nil {
		if n := s.takeAll(); n > 0 {
			return n
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
	}
	return 0
}

func (s *slots) takeAll() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.free
	s.free = 0
	return n
}

// release gives back slots.
func (s *slots) release(n int) {
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
