package bus

import (
	"sync"
	"testing"
)

// The first refusal comes while other publishes succeed. The rounds are many because only few of
// them interleave as it takes.
func TestFirstRefusalBesideOtherPublishes(t *testing.T) {
	if testing.Short() {
		t.Skip("many rounds take long under the race detector")
	}
	for range 100_000 {
		s := newSpace(&Bus{})
		var wg sync.WaitGroup
		wg.Go(func() { s.Note("a", ErrFull) })
		for range 4 {
			wg.Go(func() { s.Note("a", nil) })
		}
		wg.Wait()
		if r, ok := s.LastRefusal(); !ok || r.Subject != "a" {
			t.Fatalf("the refusal is %v, %v", r, ok)
		}
	}
}
