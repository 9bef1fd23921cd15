package consume_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// startCluster starts three servers that replicate, and returns the URL of one.
func startCluster(t *testing.T) string {
	t.Helper()
	const size = 3
	ports, routes, servers := make([]int, size), make([]*url.URL, size), make([]*server.Server, size)
	for i := range size { // each server needs the route ports of the others
		ports[i] = bustest.FreePort(t)
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", ports[i])}
	}
	for i := range size {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]},
		})
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers[i] = s
	}
	for _, s := range servers {
		if !s.ReadyForConnections(bustest.Timeout) {
			t.Fatal("a server did not start")
		}
	}
	bustest.WaitUntil(t, "a leader of the servers", func() bool {
		return slices.ContainsFunc(servers, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == size
		})
	})
	return servers[0].ClientURL()
}

func TestTurnsInACluster(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers take some seconds")
	}
	b, err := bus.Connect(t.Context(), bus.Config{Server: startCluster(t), Replicas: 3, MaxBytes: 16 << 20, Timeout: time.Minute, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	testTurns(t, b, 4, 400)
}
