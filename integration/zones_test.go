package integration

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// startRegions starts two clusters of one server each, which gateways join. It returns the URLs of
// their clients.
func startRegions(t *testing.T, names ...string) map[string]string {
	t.Helper()
	var gateways []*server.RemoteGatewayOpts
	ports := map[string]int{}
	for _, name := range names {
		ports[name] = bustest.FreePort(t)
		gateways = append(gateways, &server.RemoteGatewayOpts{Name: name, URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[name])}}})
	}
	urls := map[string]string{}
	var servers []*server.Server
	for _, name := range names {
		route := bustest.FreePort(t) // a cluster of one server needs a route to itself
		s, err := server.NewServer(&server.Options{
			ServerName: name, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: name, Host: "127.0.0.1", Port: route}, Routes: []*url.URL{{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", route)}},
			Gateway: server.GatewayOpts{Name: name, Host: "127.0.0.1", Port: ports[name], Gateways: gateways},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	bustest.WaitUntil(t, "the regions to have a leader", func() bool {
		return slices.ContainsFunc(servers, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(names)
		})
	})
	for i, s := range servers {
		urls[names[i]] = s.ClientURL()
	}
	return urls
}

// Two regions are joined by gateways, and the streams are in the east. The calls of each zone run
// there, in the other zone while all slots are taken or all workers have been killed, and at home
// again when a worker is back.
func TestZonesInTwoRegions(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("the regions take some seconds to elect a leader")
	}
	urls := startRegions(t, "east", "west")
	if out := worker(t, "provision", "--server", urls["east"], "--timeout", "1m", "--max-bytes", "16MiB"); out.code != 0 {
		t.Fatal(out.stderr)
	}
	east := connect(t, urls["east"])
	held, release := make(chan struct{}, 1), make(chan struct{})
	sub, err := east.nc.QueueSubscribe("trial.hold", "tools", func(msg *nats.Msg) {
		held <- struct{}{}
		go func() {
			<-release
			_ = msg.Respond([]byte("done"))
		}()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	serve := func(zone, other string) *process {
		p, err := launch("serve", "--server", urls[zone], "--zone", zone, "--other-zone", other, "--name", zone, "--data", t.TempDir(), "--workspace", t.TempDir(),
			"--slots", "1", "--lease", "2s", "--remote-tool", "hold=trial.hold", "--timeout", "1m")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	n := 0
	submit := func(zone, tool, args string) (result func() event) {
		n++
		id := fmt.Sprint("c", n)
		result = east.subscribe("stevedore.stored.result.s." + id)
		east.publish("stevedore.call.default--"+zone+"."+tool+".s."+id, `{"args":`+args+`}`)
		return result
	}
	runsIn := func(zone string) string { return submit(zone, "list_dir", `{"path":"."}`)().text("worker") }
	ranIn := func(zone, want, when string) {
		t.Helper()
		if got := runsIn(zone); got != want {
			t.Errorf("%s, a call of the %s runs in the %s", when, zone, got)
		}
	}
	workers := map[string]*process{"east": serve("east", "west"), "west": serve("west", "east")}
	for _, zone := range []string{"east", "west"} {
		other := map[string]string{"east": "west", "west": "east"}[zone]
		bustest.WaitUntil(t, "the worker of the zone", func() bool { return runsIn(zone) == zone })
		busy := submit(zone, "hold", `{}`)
		<-held
		ranIn(zone, other, "beside a call that takes the only slot")
		release <- struct{}{}
		if got := busy().text("worker"); got != zone {
			t.Errorf("the call of the %s that was held ran in the %s", zone, got)
		}
		bustest.WaitUntil(t, "a call with a free slot to run in its zone", func() bool { return runsIn(zone) == zone }) // the first may still find a request of the other zone
		workers[zone].kill()
		ranIn(zone, other, "without a worker")
		workers[zone] = serve(zone, other)
		bustest.WaitUntil(t, "the calls to come back to the new worker", func() bool { return runsIn(zone) == zone })
	}
}
