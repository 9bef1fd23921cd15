package rpc_test

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
)

// When OnReady is called, the server has the subscriptions of the service, so that
// requests over any connection are answered.
func TestReadyMeansThatRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	serve(t, bustest.Connect(t, server, bus.Config{}), mem.New(offload.StoreConfig{}))
	client := bustest.Connect(t, server, bus.Config{})
	if _, err := rpc.Request(t.Context(), client, client.RPC("artifact", "s1", "query"), rpc.ReadRequest{}); err != nil {
		t.Errorf("the first request: %v", err)
	}
}
