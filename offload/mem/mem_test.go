package mem

import (
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var s *Store
		return storetest.Harness{
			Open:     func(t *testing.T, cfg offload.StoreConfig) offload.Store { s = New(cfg); return s },
			Stored:   func(t *testing.T) int { return len(s.blobs) },
			Volatile: true,
		}
	})
}
