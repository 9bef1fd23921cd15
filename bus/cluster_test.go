package bus_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// cluster is three servers in this process. A test can stop and restart them.
type cluster struct {
	options []*server.Options
	servers []*server.Server
	urls    []string
}

// clusterTimeout is that of a bus, for three servers on a busy machine.
const clusterTimeout = time.Minute

// startCluster starts three servers that replicate.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	const size = 3
	c := &cluster{servers: make([]*server.Server, size)}
	var ports []int // each server needs the route ports of the others
	for range 2 * size {
		ports = append(ports, bustest.FreePort(t))
	}
	var routes []*url.URL
	for _, port := range ports[:size] {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i := range size {
		c.options = append(c.options, &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: ports[size+i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]},
		})
		c.urls = append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[size+i]))
	}
	t.Cleanup(func() {
		for i := range size {
			c.stop(i)
		}
	})
	for i := range size {
		c.start(t, i)
	}
	for _, s := range c.servers {
		if !s.ReadyForConnections(bustest.Timeout) {
			t.Fatal("a server did not start")
		}
	}
	bustest.WaitUntil(t, "a leader of the servers", func() bool {
		return slices.ContainsFunc(c.servers, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == size
		})
	})
	return c
}

// start starts a server, with its earlier data if it was stopped.
func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	c.servers[i] = s
}

func (c *cluster) stop(i int) {
	if s := c.servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[i] = nil
	}
}

// The servers need seconds for their elections, and on a busy machine nine servers elect no leaders in
// time. So all tests of a cluster share one, in the order that they need.
func TestCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers take some seconds")
	}
	c := startCluster(t)
	t.Run("ProvisionReplicasOfBuckets", func(t *testing.T) { testProvisionReplicasOfBuckets(t, c) }) // it needs servers without buckets
	t.Run("LastMessage", func(t *testing.T) { testLastMessage(t, c) })
	t.Run("ProvisionWaitsForServers", func(t *testing.T) { testProvisionWaitsForServers(t, c) })
	t.Run("PublishAfterMessageInFlightIsLost", func(t *testing.T) {
		slow.Test(t) // two elections
		testPublishAfterMessageInFlightIsLost(t, c)
	})
}

// On a replicated stream, only the leader knows that a subject has no message. The
// question to it once used a subject without a listener, so that every redelivered call
// failed.
func testLastMessage(t *testing.T, c *cluster) {
	b, err := bus.Connect(t.Context(), bus.Config{Server: c.urls[0], Replicas: 3, MaxBytes: 16 << 20, Timeout: clusterTimeout, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	if body, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("s", "c"))); ok || err != nil {
		t.Errorf("nothing is there: %s, %t, %v", body, ok, err)
	}
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if body, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("s", "c"))); !ok || err != nil || string(body) != "x" {
		t.Errorf("something is there: %s, %t, %v", body, ok, err)
	}
	// The last of several messages on a subject is known by the leader.
	direct := bustest.Subscribe(t, b, "$JS.API.DIRECT.GET.>")
	for _, body := range []string{"old", "new"} {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.RunOf(bus.Cron, "job"), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	if body, ok, err := bustest.Message(b.Last(t.Context(), bus.Ticks, b.RunOf(bus.Cron, "job"))); !ok || err != nil || string(body) != "new" {
		t.Errorf("the last run: %s, %t, %v", body, ok, err)
	}
	if asked := bustest.Rest(t, b, direct); len(asked) > 0 {
		t.Errorf("any replica was asked for the last run: %d requests", len(asked))
	}
	// Workers change the record of a call at the same time.
	const workers = 8
	var group sync.WaitGroup
	key := tools.CallKey{Session: "s", ID: "c"}
	for range workers {
		group.Go(func() {
			if err := task.CountStart(t.Context(), b, key, 1); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if r, err := task.ReadRecord(t.Context(), b, key); err != nil || r.Starts != workers {
		t.Errorf("the record has %d starts of %d, %v", r.Starts, workers, err)
	}
	found := 0
	for _, err := range b.Read(t.Context(), bus.Results, bus.Query{Subject: b.Result("*", "*")}) {
		if found++; err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Errorf("read %d", found)
	}
}

// --replicas applies to buckets, too. Once they kept one replica without a warning, and
// all artifacts were on one server.
func testProvisionReplicasOfBuckets(t *testing.T, c *cluster) {
	connect := func(replicas int) *bus.Bus {
		b, err := bus.Connect(t.Context(), bus.Config{Server: c.urls[0], Replicas: replicas, MaxBytes: 16 << 20, Timeout: clusterTimeout, Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	buckets := []string{"KV_stevedore_state", "KV_stevedore_artifacts", "KV_stevedore_tasks", "OBJ_stevedore_blobs"}
	differences := func(b *bus.Bus, change admin.Change) (of []string) {
		var all []bus.Difference
		bustest.WaitUntil(t, "the peers to be heard", func() (ok bool) {
			got, err := admin.Provision(t.Context(), b, change)
			if err != nil && !strings.Contains(err.Error(), "peer offline") { // on a busy machine
				t.Fatal(err)
			}
			all = append(all, got.Differences...) // with an error, what was changed before it
			return err == nil
		})
		for _, d := range all {
			if strings.HasPrefix(d.Name, "KV_") || strings.HasPrefix(d.Name, "OBJ_") {
				of = append(of, d.Name)
				if d.Setting != "num_replicas" || d.Have != "1" || d.Want != "3" {
					t.Errorf("unexpected difference: %s", d)
				}
			}
		}
		return of
	}
	if got := differences(connect(1), admin.Nothing); got != nil {
		t.Errorf("new buckets differ: %q", got)
	}
	b := connect(3)
	if got := differences(b, admin.Nothing); !slices.Equal(got, buckets) {
		t.Errorf("%q differ, want %q", got, buckets)
	}
	replicas := func(name string) int {
		s, err := b.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config.Replicas
	}
	for _, name := range buckets {
		if got := replicas(name); got != 1 {
			t.Errorf("%s was altered: %d replicas", name, got)
		}
	}
	if got := differences(b, admin.Everything); !slices.Equal(got, buckets) {
		t.Errorf("an update returns the differences %q, want %q", got, buckets)
	}
	for _, name := range buckets {
		if got := replicas(name); got != 3 {
			t.Errorf("%s was not updated: %d replicas", name, got)
		}
	}
	if got := differences(connect(0), admin.Nothing); got != nil {
		t.Errorf("without a number of replicas: differences %q", got)
	}
	// A stream that was lost gets as many replicas as the others. A replica that has not created
	// it yet answers that there is none.
	if err := b.JetStream().DeleteStream(t.Context(), b.StreamName(bus.Results)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	differences(connect(0), admin.Nothing)
	if got := replicas(b.StreamName(bus.Results)); got != 3 {
		t.Errorf("a stream that was created again has %d replicas", got)
	}
}

// While a message is in flight on a replicated stream, the leader rejects others on its
// subject, and the message may never be stored. A completion was once lost because
// Publish trusted that rejection.
func testPublishAfterMessageInFlightIsLost(t *testing.T, c *cluster) {
	b, err := bus.Connect(t.Context(), bus.Config{Server: strings.Join(c.urls, ","), Replicas: 3, MaxBytes: 16 << 20, Timeout: time.Second, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Results))
	if err != nil {
		t.Fatal(err)
	}
	// If a server has nothing of a stream yet, only all servers together elect a leader.
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Completion("s", "first"), Body: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the replicas to have the message", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Lag > 0 })
	})
	leader := slices.IndexFunc(c.options, func(o *server.Options) bool { return o.ServerName == stream.CachedInfo().Cluster.Leader })
	nc, err := nats.Connect(c.urls[leader], nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()

	// The leader accepts a message that no other server gets.
	followers := []int{(leader + 1) % 3, (leader + 2) % 3}
	for _, i := range followers {
		c.stop(i)
	}
	subject := b.Completion("s", "c")
	if reply, err := nc.Request(subject, []byte("lost"), 100*time.Millisecond); err == nil {
		t.Fatalf("a publish without a majority: %s", reply.Data)
	}
	if reply, err := nc.Request(subject, []byte("other"), bustest.Timeout); err != nil || !strings.Contains(string(reply.Data), "maximum messages per subject") {
		t.Fatalf("a message in flight does not block its subject: %v", err)
	}
	published := make(chan error, 1)
	go func() {
		_, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte("mine"), Timeout: bus.NoTimeout})
		published <- err
	}()
	// Publish asks the leader whether a message is stored. If it asks again, the answer
	// did not end it.
	asked, err := nc.SubscribeSync("$JS.API.STREAM.MSG.GET." + b.StreamName(bus.Results))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case err := <-published:
			t.Fatalf("publish returned although nothing is stored: %v", err)
		case err := <-received(asked):
			if err != nil {
				t.Fatalf("publish does not ask the leader: %v", err)
			}
		}
	}

	// The others elect a leader, which does not have the message.
	c.stop(leader)
	for _, i := range followers {
		c.start(t, i)
	}
	if err := <-published; err != nil && !errors.Is(err, bus.ErrSubjectExists) { // an acknowledgement may be lost
		t.Fatal(err)
	}
	if body, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, subject)); !ok || err != nil || string(body) != "mine" {
		t.Errorf("stored: %q, %t, %v", body, ok, err)
	}
}

// received waits for a message of the subscription.
func received(sub *nats.Subscription) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := sub.NextMsg(bustest.Timeout)
		done <- err
	}()
	return done
}

// The servers of a cluster that starts do not know of each other yet. Provision waits for
// as many as the streams need. If its caller gives up, the error says what it waited for.
func testProvisionWaitsForServers(t *testing.T, c *cluster) {
	slow.Test(t)
	cfg := bus.Config{Server: c.urls[0], Prefix: "five", Replicas: 5, MaxBytes: 16 << 20, Timeout: clusterTimeout, Log: bustest.Log(t)}
	b, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	asked, err := b.Conn().SubscribeSync("$JS.API.STREAM.CREATE." + b.StreamName(bus.Results))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	provisioned := make(chan error, 1)
	go func() {
		_, err := admin.Provision(ctx, b, admin.Nothing)
		provisioned <- err
	}()
	for range 2 {
		select {
		case err := <-provisioned:
			t.Fatalf("it did not wait: %v", err)
		case err := <-received(asked):
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := <-provisioned; err == nil || !strings.Contains(err.Error(), "5 replicas needs as many servers") {
		t.Error(err)
	}
}
