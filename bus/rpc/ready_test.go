package rpc_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
)

// Who was told that the service is ready gets an answer, over any connection.
func TestReadyMeansThatRequestsAreAnswered(t *testing.T) {
	server := bustest.Server(t)
	ours, client := bustest.Connect(t, server, bus.Config{}), bustest.Connect(t, server, bus.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()

	ready := make(chan struct{})
	service := rpc.NewService(ours, offload.NewReader(mem.New(offload.StoreConfig{}), offload.ReaderConfig{}),
		rpc.ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)})
	group.Go(func() {
		if err := service.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-ready
	if _, err := rpc.Request(t.Context(), client, client.RPC("artifact", "s1", "query"), rpc.ReadRequest{}); err != nil {
		t.Errorf("the first request: %v", err)
	}
}
