package fair

import (
	"context"
	"slices"
	"sync"
)

// Slots limits how many messages a consumer handles at once.
type Slots struct {
	mu    sync.Mutex
	free  int     // negative if messages arrived for a request that had ended
	asked int     // free ones for which messages are on their way
	first []*byte // callers that wait in TakeFirst, in order
	kept  int     // free ones that only TakeFirst takes
	freed *sync.Cond
}

// NewSlots returns so many free slots.
func NewSlots(size int) *Slots {
	s := &Slots{free: size}
	s.freed = sync.NewCond(&s.mu)
	return s
}

// AwaitFree waits until a slot is free or ctx ends, and returns the number of free slots, most
// at most, for which the caller then asks the server. EndPull follows it.
func (s *Slots) AwaitFree(ctx context.Context, most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	await(ctx, s.freed, func() bool { return s.free > s.kept && len(s.first) == 0 })
	s.asked = min(s.free-s.kept, most)
	return s.asked
}

// Keep keeps n slots for TakeFirst.
func (s *Slots) Keep(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != n {
		s.kept = n
		s.freed.Broadcast()
	}
}

// EndPull says that no more messages are on their way.
func (s *Slots) EndPull() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = 0
	s.freed.Broadcast()
}

// TakeFirst takes the next slot, before AwaitFree returns and after those who called it before.
// It reports false if ctx ended.
func (s *Slots) TakeFirst(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := new(byte)
	s.first = append(s.first, place)
	await(ctx, s.freed, func() bool { return s.free > s.asked && s.first[0] == place })
	s.first = slices.DeleteFunc(s.first, func(p *byte) bool { return p == place })
	if ctx.Err() == nil {
		s.free--
	}
	s.freed.Broadcast()
	return ctx.Err() == nil
}

// await waits until ok returns true or ctx ends. The caller holds the lock of freed.
func await(ctx context.Context, freed *sync.Cond, ok func() bool) {
	if ok() || ctx.Err() != nil {
		return
	}
	defer context.AfterFunc(ctx, func() {
		freed.L.Lock()
		defer freed.L.Unlock()
		freed.Broadcast()
	})()
	for !ok() && ctx.Err() == nil {
		freed.Wait()
	}
}

// Take takes a slot for a message that the caller asked the server for.
func (s *Slots) Take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free--
	s.asked = max(s.asked-1, 0)
}

// Release frees a slot.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.freed.Broadcast()
}
