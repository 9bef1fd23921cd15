package bus

import (
	"context"
	"sync"
)

// slots counts the free slots of a consumer.
type slots struct {
	wake chan struct{} // has an element if slots may be free

	mu   sync.Mutex
	free int
}

func newSlots(size int) *slots {
	return &slots{free: size, wake: make(chan struct{}, 1)}
}

// reserve waits until a slot is free and takes all free slots. It returns 0 if ctx
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

// release frees slots.
func (s *slots) release(n int) {
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
