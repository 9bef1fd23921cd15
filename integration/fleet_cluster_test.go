package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// A tenant is added to all servers of a cluster that runs, and a server with an old configuration
// is named. What the tenant uses first gets as many replicas as its calls.
func TestAddTenantToACluster(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	f := newFleet(t)
	shared := filepath.Join(f.config, "nats-server.conf")
	own := filepath.Join(f.config, "own.conf") // a copy that somebody must update
	copyShared := func() {
		t.Helper()
		text, err := os.ReadFile(shared)
		if err == nil {
			err = os.WriteFile(own, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyShared()
	ports := []int{bustest.FreePort(t), bustest.FreePort(t), bustest.FreePort(t)}
	var servers []*server.Server
	for i, included := range []string{shared, shared, own} {
		address := f.address
		if i > 0 {
			address = bustest.FreeAddress(t)
		}
		file := filepath.Join(f.config, fmt.Sprintf("s%d.conf", i))
		f.write(file, fmt.Sprintf("include %s\nserver_name: s%d\nlisten: %q\njetstream { store_dir: %q }\ncluster { name: c, listen: \"127.0.0.1:%d\", routes: [ \"nats-route://127.0.0.1:%d\", \"nats-route://127.0.0.1:%d\", \"nats-route://127.0.0.1:%d\" ] }\n",
			filepath.Base(included), i, address, filepath.Join(t.TempDir(), "js"), ports[i], ports[0], ports[1], ports[2]))
		servers = append(servers, f.startServer(file))
	}
	bustest.WaitUntil(t, "the cluster to have a leader", func() bool {
		for _, s := range servers {
			if s.NumRoutes() < 2 || !s.JetStreamIsCurrent() {
				return false
			}
		}
		return true
	})
	add := []string{"provision", "--server-config", f.config, "--tenant", "red", "--serve-from", f.tenants, "--max-bytes", "16MiB", "--replicas", "3"}
	if out := worker(t, add...); out.code == 0 || !strings.Contains(out.stderr, `the server "s2" does not have the tenant "red": copy `+shared) {
		t.Errorf("a server with an old configuration: exit code %d, %s", out.code, out.stderr)
	}
	copyShared()
	f.run(add...)
	key, err := nats.NkeyOptionFromSeed(filepath.Join(f.tenants, "red.nk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		nc, err := nats.Connect(s.ClientURL(), key, nats.CustomInboxPrefix("_INBOX_worker"))
		if err != nil {
			t.Fatalf("%s: %v", s.Name(), err)
		}
		nc.Close()
	}
	p := start(t, f.args()...)
	red := f.connect("red")
	results := red.subscribe("stevedore.stored.result.s.*")
	red.request("cron.s.add", `{"name":"job","every":"1s","tool":"list_dir","args":{"path":"."}}`)
	if got := results(); got["is_error"] == true {
		t.Errorf("the job returns %v", got)
	}
	m, err := red.nc.Request("$JS.API.STREAM.INFO.STEVEDORE_TICKS", nil, testTimeout)
	if err != nil || !strings.Contains(string(m.Data), `"num_replicas":3`) {
		t.Errorf("the stream of schedules: %v: %s", err, m.Data)
	}
	if err := p.stop(); err != nil {
		t.Errorf("%v\n%s", err, p.stderr)
	}
}
