package integration

import (
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// A client whose server is cut off from the other servers moves to another one.
func TestClientLeavesIsolatedServer(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := startCluster(t, 3)
	b, err := bus.Connect(t.Context(), bus.Config{Server: c.url(0), Replicas: 3, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.isolate(0)
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("console"), Body: []byte(`{"text":"x"}`), Key: "x"}); err != nil {
		t.Error(err)
	}
	if b.Conn().ConnectedServerName() == "n0" {
		t.Error("the client is still connected to the isolated server")
	}
	t.Logf("published %s after the server was isolated", time.Since(began).Round(time.Millisecond))
}
