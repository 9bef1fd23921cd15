package bus_test

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
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
	for range size { // a server needs the ports of the others
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
			t.Fatal("a server did not start")
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

// On a replicated stream, only the leader knows that a subject has no message. The
// question to it once used a subject without a listener, so that every redelivered call
// failed.
func TestLastMessageOnACluster(t *testing.T) {
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
	if body, ok, err := b.LastMessage(t.Context(), bus.Results, b.Result("s", "c")); ok || err != nil {
		t.Errorf("nothing is there: %s, %t, %v", body, ok, err)
	}
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if body, ok, err := b.LastMessage(t.Context(), bus.Results, b.Result("s", "c")); !ok || err != nil || string(body) != "x" {
		t.Errorf("something is there: %s, %t, %v", body, ok, err)
	}
	found := 0
	all, err := b.ScanDirect(t.Context(), bus.Results, b.Result("*", "*"), 10, 1<<20, func(bus.Stored) bool { found++; return true })
	if !all || err != nil || found != 1 {
		t.Errorf("scan: %d, all %t, %v", found, all, err)
	}
}

// --replicas applies to buckets, too. Once they kept one replica without a warning, and
// all artifacts were on one server.
func TestProvisionReplicasOfBuckets(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take some seconds")
	}
	urls := startCluster(t)
	connect := func(replicas int) *bus.Bus {
		b, err := bus.Connect(t.Context(), bus.Config{Server: urls[0], Replicas: replicas, MaxBytes: 16 << 20, Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	buckets := []string{"KV_stevedore_state", "KV_stevedore_artifacts", "KV_stevedore_tasks", "OBJ_stevedore_blobs"}
	differences := func(b *bus.Bus, update bool) (of []string) {
		got, err := b.Provision(t.Context(), update)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range got.Differences {
			if strings.HasPrefix(d.Name, "KV_") || strings.HasPrefix(d.Name, "OBJ_") {
				of = append(of, d.Name)
				if d.Setting != "num_replicas" || d.Have != "1" || d.Want != "3" {
					t.Errorf("unexpected difference: %s", d)
				}
			}
		}
		return of
	}
	if got := differences(connect(1), false); got != nil {
		t.Errorf("new buckets differ: %q", got)
	}
	b := connect(3)
	if got := differences(b, false); !slices.Equal(got, buckets) {
		t.Errorf("%q differ, want %q", got, buckets)
	}
	for _, name := range buckets {
		if got := config(t, b, name).Replicas; got != 1 {
			t.Errorf("%s was altered: %d replicas", name, got)
		}
	}
	if got := differences(b, true); !slices.Equal(got, buckets) {
		t.Errorf("an update returns the differences %q, want %q", got, buckets)
	}
	for _, name := range buckets {
		if got := config(t, b, name).Replicas; got != 3 {
			t.Errorf("%s was not updated: %d replicas", name, got)
		}
	}
	if got := differences(connect(0), false); got != nil {
		t.Errorf("without a number of replicas: differences %q", got)
	}
}
