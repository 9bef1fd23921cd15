package bus

import (
	"context"
	"sync"
)

// slots limits how many messages a consumer handles at once.
type slots struct {
	mu    sync.Mutex
	free  int // negative if messages arrived for a request that had ended
	asked int // free ones for which messages are on their way
	first int // callers that wait in takeFirst
	kept  int // free ones that only takeFirst takes
	freed *sync.Cond
	waits int
}

func newSlots(size int) *slots {
	s := &slots{free: size}
	s.freed = sync.NewCond(&s.mu)
	return s
}

// awaitFree waits until a slot is free or ctx ends, and returns the number of free slots, for
// which the caller then asks the server. endPull follows it.
func (s *slots) awaitFree(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait(ctx, func() bool { return s.free > s.kept && s.first == 0 })
	s.asked = s.free - s.kept
	return s.asked
}

// keep keeps n slots for takeFirst.
func (s *slots) keep(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != n {
		s.kept = n
		s.freed.Broadcast()
	}
}

// endPull says that no more messages are on their way.
func (s *slots) endPull() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = 0
	s.freed.Broadcast()
}

// takeFirst takes the next slot, before awaitFree returns. It reports false if ctx ended.
func (s *slots) takeFirst(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first++
	s.wait(ctx, func() bool { return s.free > s.asked })
	s.first--
	if ctx.Err() == nil {
		s.free--
	}
	s.freed.Broadcast()
	return ctx.Err() == nil
}

// wait waits until ok returns true or ctx ends. The caller holds the lock.
func (s *slots) wait(ctx context.Context, ok func() bool) {
	if ok() || ctx.Err() != nil {
		return
	}
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.freed.Broadcast()
	})()
	s.waits++
	defer func() { s.waits-- }()
	for !ok() && ctx.Err() == nil {
		s.freed.Wait()
	}
}

func (s *slots) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free--
	s.asked = max(s.asked-1, 0)
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.waits > 0 {
		s.freed.Broadcast()
	}
}
