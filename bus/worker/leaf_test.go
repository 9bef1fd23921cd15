package worker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
)

func startNATS(t *testing.T, opts server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", -1, true, true
	s, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(bustest.Timeout) {
		t.Fatal("a server does not start")
	}
	return s
}

// address is that of a server for leaf nodes.
type address string

func (a address) URL() string { return string(a) }

// A worker behind a leaf node does all that another one does. If the leaf is cut off, the worker
// goes on, and afterwards each call has one result and ran once.
func TestWorkerBehindALeafNode(t *testing.T) {
	t.Parallel()
	port := bustest.FreePort(t)
	hub := startNATS(t, server.Options{
		ServerName: "hub", JetStream: true, JetStreamDomain: "hub", StoreDir: t.TempDir(),
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true},
	})
	link := bustest.NewProxy(t, address(fmt.Sprint("nats-leaf://127.0.0.1:", port)))
	remote := &url.URL{Scheme: "nats-leaf", Host: link.Host()}
	leaf := startNATS(t, server.Options{ServerName: "leaf", LeafNode: server.LeafNodeOpts{
		ReconnectInterval: 50 * time.Millisecond, Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}},
	}})
	connect := func(cfg bus.Config) (b *bus.Bus) {
		cfg.Timeout, cfg.Lease, cfg.MaxBytes = 2*time.Second, time.Second, 64<<20
		bustest.WaitUntil(t, "a connection", func() (ok bool) { // the leaf does not know the hub's subjects at once
			var err error
			b, err = bus.Connect(t.Context(), cfg)
			return err == nil
		})
		t.Cleanup(b.Close)
		return b
	}
	client, edge := connect(bus.Config{Server: hub.ClientURL()}), connect(bus.Config{Server: leaf.ClientURL(), Domain: "hub"})
	if _, err := admin.Provision(t.Context(), edge, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	store := func(b *bus.Bus) *object.Store {
		s, err := object.Open(t.Context(), b.JetStream(), object.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var runs, approved atomic.Int64
	release, published := make(chan struct{}), make(chan struct{}, 100)
	later := manualAsync{effect: tools.Idempotent, started: make(chan tools.AsyncCallback, 1)}
	workertest.StartSteps(t, edge, offload.NewOffloader(store(edge), offload.Config{}), worker.Config{
		Slots:     2,
		Approvals: approvals.Rules{Needed: func(call tools.Call) bool { return call.Tool == "danger" }},
	}, func(s string) {
		if s == "publish" {
			published <- struct{}{}
		}
	}, echo(t, "echo", tools.Once, &runs, nil), echo(t, "danger", tools.Once, &approved, nil), later,
		echo(t, "wait", tools.Once, &runs, func() { <-release }))
	call := func(tool, id, text string) tools.Call {
		args, err := json.Marshal(echoArgs{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		return tools.Call{ID: id, Session: "s", Tool: tool, Args: args}
	}

	big := strings.Repeat("a line of a big result\n", 20_000)
	result := <-submitCall(t, client, call("echo", "big", big))
	if result.Artifact == nil || result.Artifact.ID != "big" {
		t.Fatalf("the big result: %.500q", result.ForLLM)
	}
	hubStore := store(client)
	record, err := hubStore.Get(t.Context(), "s", "big")
	if err != nil {
		t.Fatal(err)
	}
	content, err := hubStore.Open(t.Context(), record)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if got, err := io.ReadAll(io.NewSectionReader(content, 0, content.Size())); err != nil || string(got) != big {
		t.Errorf("the artifact has %d bytes, %v", len(got), err)
	}
	parked := submitCall(t, edge, call("danger", "ask", "x"))
	waitForApprovals(t, edge, 1)
	if _, err := approvals.Answer(t.Context(), client, tools.CallKey{Session: "s", ID: "ask"}, task.Answer{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if result := <-parked; result.ForUser != "x" || approved.Load() != 1 {
		t.Errorf("the approved call: %+v after %d runs", result, approved.Load())
	}
	if result := <-submitCall(t, edge, call("later", "async", "x")); !result.Async {
		t.Errorf("the async call: %+v", result)
	}
	callback := <-later.started
	waiting := submitCall(t, client, call("wait", "running", "ran"))
	bustest.WaitUntil(t, "the call to run", func() bool { return runs.Load() == 2 })

	for len(published) > 0 {
		<-published
	}
	link.Hold()
	link.Cut()
	bustest.WaitUntil(t, "the leaf to be cut off", func() bool { return hub.NumLeafNodes() == 0 })
	if _, err := bus.Connect(t.Context(), bus.Config{Server: leaf.ClientURL(), Domain: "hub", Timeout: 2 * time.Second}); err == nil || !strings.Contains(err.Error(), `domain "hub"`) {
		t.Errorf("a client that connects meanwhile: %v", err)
	}
	results := []<-chan tools.ResultEvent{waiting}
	for i := range 10 {
		c := call("echo", fmt.Sprint("c", i), "ran")
		if _, err := rpc.Enqueue(t.Context(), client, bus.DefaultQueue, c); err != nil {
			t.Fatal(err)
		}
		results = append(results, submitCall(t, client, c))
	}
	completed := make(chan struct{})
	go func() { callback(t.Context(), tools.UserResult("done")); close(completed) }()
	close(release)
	select {
	case <-published: // a result, while the link is cut
	case <-time.After(bustest.Timeout):
		t.Error("the worker publishes no result")
	}
	link.Heal()

	for _, result := range results {
		if got := <-result; got.Outcome != tools.Completed || got.ForUser != "ran" {
			t.Errorf("result %+v", got)
		}
	}
	if got, err := rpc.AwaitCompletion(t.Context(), client, call("later", "async", "x")); err != nil || got.ForUser != "done" {
		t.Errorf("completion %+v, %v", got, err)
	}
	<-completed
	waitEmpty(t, client)
	if runs.Load() != 12 {
		t.Errorf("12 calls ran %d times", runs.Load())
	}
}
