package offload

import "testing"

func TestMemStore(t *testing.T) {
	testStore(t, func(t *testing.T) harness {
		var s *MemStore
		return harness{
			open:    func(t *testing.T, cfg StoreConfig) Store { s = NewMem(cfg); return s },
			stored:  func(t *testing.T) int { return len(s.blobs) },
			forgets: true,
		}
	})
}
