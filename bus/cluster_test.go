package bus_test

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// startCluster starts three servers that replicate, and returns their URLs.
func startCluster(t *testing.T) []string {
	t.Helper()
	const size = 3
	var (
		routes  []*url.URL
		ports   []int
		servers []*server.Server
		urls    []string
	)
	for range size { // each has to know the others before it starts
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port},
		})
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("a server does not start")
		}
		urls = append(urls, s.ClientURL())
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		for _, s := range servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(servers) {
				return urls
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the servers have no leader")
		}
	}
}

// With replicas, that nothing stands on a subject is the leader's word. It used
// to be asked where nobody listens, so that reading failed, and with it every
// call that was delivered again.
func TestLastOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take some seconds")
	}
	urls := startCluster(t)
	b, err := bus.Connect(t.Context(), bus.Config{Server: urls[0], Replicas: 3, MaxBytes: 16 << 20, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if body, ok, err := b.Last(t.Context(), bus.Results, b.Result("s", "c")); ok || err != nil {
		t.Errorf("nothing is there: %s, %t, %v", body, ok, err)
	}
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if body, ok, err := b.Last(t.Context(), bus.Results, b.Result("s", "c")); !ok || err != nil || string(body) != "x" {
		t.Errorf("something is there: %s, %t, %v", body, ok, err)
	}
	found := 0
	all, err := b.Scan(t.Context(), bus.Results, b.Result("*", "*"), 10, 1<<20, func(bus.Stored) bool { found++; return true })
	if !all || err != nil || found != 1 {
		t.Errorf("scan: %d, all %t, %v", found, all, err)
	}
}
