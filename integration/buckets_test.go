package integration

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/offload/object"
)

// TestBucketsOfAProgram: a program that opens the store of artifacts before any
// worker came makes its buckets as the topology wants them.
func TestBucketsOfAProgram(t *testing.T) {
	b, err := bus.Connect(t.Context(), bustest.Server(t).ClientConfig(bus.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := object.Open(t.Context(), b.JetStream(), object.Config{}); err != nil {
		t.Fatal(err)
	}
	got, err := b.Provision(t.Context(), false)
	if err != nil || len(got.Differences) > 0 {
		t.Errorf("differences %v, %v", got.Differences, err)
	}
}
