package integration

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// nodeEnv contains the nodeConfig of a server process.
const nodeEnv = "STEVEDORE_TEST_NODE"

// nodeConfig describes one server of a cluster, or the only server.
type nodeConfig struct {
	Name    string
	Dir     string
	Client  int      // port for clients
	Route   int      // port for routes; 0 for a single server
	Routes  []string // URLs of the other servers
	Via     string   // the address at which other servers reach this one
	Config  string   // file with accounts; "" for none
	Monitor int      // port of the server's HTTP monitoring; 0 for none
}

// serveNode is the main function of a server process. The server syncs every write.
func serveNode() error {
	ignoreFileLimit()
	var c nodeConfig
	if err := json.Unmarshal([]byte(os.Getenv(nodeEnv)), &c); err != nil {
		return err
	}
	opts := &server.Options{}
	if c.Config != "" {
		var err error
		if opts, err = server.ProcessConfigFile(c.Config); err != nil {
			return err
		}
	}
	opts.ServerName, opts.Host, opts.Port, opts.NoLog, opts.NoSigs = c.Name, "127.0.0.1", c.Client, true, true
	opts.JetStream, opts.StoreDir, opts.SyncAlways = true, c.Dir, true
	if c.Monitor != 0 { // clients know only their own links
		opts.HTTPHost, opts.HTTPPort = "127.0.0.1", c.Monitor
	}
	if c.Route != 0 {
		opts.Cluster = server.ClusterOpts{Name: "soak", Host: "127.0.0.1", Port: c.Route, Advertise: c.Via, PoolSize: -1, NoAdvertise: c.Monitor != 0}
		opts.Routes = server.RoutesFromStr(strings.Join(c.Routes, ","))
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(testTimeout) { // without a log, the server does not say why
		return fmt.Errorf("server %s does not listen on port %d", c.Name, c.Client)
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM)
	go func() { <-stopped; s.Shutdown() }()
	s.WaitForShutdown()
	return nil
}

// runServer is nats-server, for pages that start it.
func runServer() error {
	opts, err := server.ConfigureOptions(flag.NewFlagSet("nats-server", flag.ExitOnError), os.Args[1:], nil, nil, nil)
	if err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	if err := server.Run(s); err != nil {
		return err
	}
	s.WaitForShutdown()
	return nil
}

// node is a server process that a test can kill, suspend and restart.
type node struct {
	nodeConfig
	*child
	link *routeLink
}

// natsCluster is one server, or three servers whose routes a test can cut.
type natsCluster struct {
	*testing.T
	nodes []*node
	links *routeLinks
	login []nats.Option // of an operator
}

func startCluster(t *testing.T, size int) *natsCluster {
	t.Helper()
	c := &natsCluster{T: t, links: newRouteLinks()}
	c.run(size, "")
	return c
}

// startTenantCluster starts servers with a configuration of tenants. They tell clients
// nothing of each other, so that clients stay on their links.
func startTenantCluster(t *testing.T, size int, config, operatorKey string) *natsCluster {
	t.Helper()
	key, err := nats.NkeyOptionFromSeed(operatorKey)
	if err != nil {
		t.Fatal(err)
	}
	c := &natsCluster{T: t, links: newRouteLinks(), login: []nats.Option{key}}
	c.run(size, config)
	return c
}

func (c *natsCluster) run(size int, config string) {
	t := c.T
	t.Helper()
	for i := range size {
		n := &node{nodeConfig: nodeConfig{Name: fmt.Sprint("n", i), Dir: filepath.Join(t.TempDir(), "js"), Client: bustest.FreePort(t), Config: config}}
		if config != "" {
			n.Monitor = bustest.FreePort(t)
		}
		if size > 1 {
			n.Route = bustest.FreePort(t)
			n.link = c.links.listen(t, n.Name, n.Route)
			n.Via = n.link.address()
		}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			if n != other {
				n.Routes = append(n.Routes, "nats-route://"+other.Via)
			}
		}
	}
	for i := range c.nodes {
		c.start(i)
	}
	c.awaitReady()
}

func (c *natsCluster) start(i int) {
	c.Helper()
	config, err := json.Marshal(c.nodes[i].nodeConfig)
	if err != nil {
		c.Fatal(err)
	}
	c.nodes[i].child = startChild(c.T, "node", nodeEnv+"="+string(config))
}

func (c *natsCluster) kill(i int) { c.nodes[i].kill() }

// stop asks a server to shut down, and kills it after 10 s.
func (c *natsCluster) stop(i int) {
	p := c.nodes[i].cmd.Process
	_ = p.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(10*time.Second, func() { _ = p.Kill() })
	defer killer.Stop()
	<-c.nodes[i].exited
}

// wipe kills a server, removes its data, and starts it again.
func (c *natsCluster) wipe(i int) {
	c.Helper()
	c.kill(i)
	if err := os.RemoveAll(c.nodes[i].Dir); err != nil {
		c.Fatal(err)
	}
	c.start(i)
}

// url returns the address of one server, or of all without an argument.
func (c *natsCluster) url(only ...int) string {
	var all []string
	for i, n := range c.nodes {
		if len(only) == 0 || only[0] == i {
			all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", n.Client))
		}
	}
	return strings.Join(all, ",")
}

// link returns a new link between one process and all servers.
func (c *natsCluster) link() *clientLink {
	c.Helper()
	var servers []string
	for _, n := range c.nodes {
		servers = append(servers, fmt.Sprint("127.0.0.1:", n.Client))
	}
	return newClientLink(c.T, servers...)
}

// awaitReady waits until every server answers requests of JetStream, and all streams
// have all their replicas.
func (c *natsCluster) awaitReady() {
	c.Helper()
	deadline := time.Now().Add(2 * testTimeout)
	for i := range c.nodes {
		for {
			err := c.checkNode(i)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				c.Fatalf("server %s is not ready: %v", c.nodes[i].Name, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (c *natsCluster) checkNode(i int) error {
	nc, err := nats.Connect(c.url(i), append(c.login, nats.Timeout(time.Second))...)
	if err != nil {
		return err
	}
	defer nc.Close()
	if got := c.known(i, nc); got < len(c.nodes) {
		return fmt.Errorf("it knows %d servers", got)
	}
	js, err := nc.JetStream(nats.MaxWait(time.Second))
	if err != nil {
		return err
	}
	if _, err := js.AccountInfo(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for s := range js.Streams(nats.Context(ctx)) {
		if s.Cluster == nil {
			continue
		}
		if s.Cluster.Leader == "" {
			return fmt.Errorf("stream %s has no leader", s.Config.Name)
		}
		for _, r := range s.Cluster.Replicas {
			if !r.Current {
				return fmt.Errorf("replica %s of %s is behind", r.Name, s.Config.Name)
			}
		}
	}
	return ctx.Err()
}

// known counts the servers that server i knows, with itself.
func (c *natsCluster) known(i int, nc *nats.Conn) int {
	port := c.nodes[i].Monitor
	if port == 0 {
		return len(nc.Servers())
	}
	var routes struct {
		Routes []struct {
			Name string `json:"remote_name"`
		}
	}
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/routez", port))
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if json.NewDecoder(res.Body).Decode(&routes) != nil {
		return 0
	}
	others := map[string]bool{}
	for _, r := range routes.Routes {
		others[r.Name] = true
	}
	return 1 + len(others)
}

// isolate holds back everything between a server and the others.
func (c *natsCluster) isolate(i int) {
	for _, other := range c.nodes {
		if other != c.nodes[i] {
			c.links.hold(c.nodes[i].Name, other.Name)
			c.links.hold(other.Name, c.nodes[i].Name)
		}
	}
}
