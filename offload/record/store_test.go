package record_test

import (
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// The store of the example passes the suite.
func TestExampleStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		return storetest.Harness{
			Open:     func(t *testing.T, cfg offload.StoreConfig) offload.Store { return New(cfg) },
			Volatile: true,
		}
	})
}
