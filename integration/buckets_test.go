package integration

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/offload/object"
)

// A program that opens the artifact store before any worker has started creates
// the same buckets as Provision.
func TestBucketsOfAProgram(t *testing.T) {
	b, err := bus.Connect(t.Context(), bustest.Server(t).ClientConfig(bus.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := object.Open(t.Context(), b.JetStream(), object.Config{}); err != nil {
		t.Fatal(err)
	}
	got, err := admin.Provision(t.Context(), b, admin.Nothing)
	if err != nil || len(got.Differences) > 0 {
		t.Errorf("differences %v, %v", got.Differences, err)
	}
}
