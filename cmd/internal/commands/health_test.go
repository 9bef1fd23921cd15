package commands

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// watchedProcess is a process that runs "stevedore up" with a health server.
type watchedProcess struct {
	health string // the address
	bus    *bus.Bus
	stop   context.CancelFunc
	exited chan int
}

func startWatched(t *testing.T, workspace string) watchedProcess {
	t.Helper()
	data := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	p := watchedProcess{stop: stop, exited: make(chan int, 1)}
	log, writer := io.Pipe()
	var group sync.WaitGroup
	t.Cleanup(func() { stop(); group.Wait() })
	group.Go(func() {
		code := run(ctx, []string{"up", "--data", data, "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--no-sync",
			"--workspace", workspace, "--name", "w1", "--log-format", "json"}, strings.NewReader(""), io.Discard, writer)
		writer.Close()
		p.exited <- code
	})
	address := make(chan string, 1)
	group.Go(func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ Message, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "health server is listening" {
				address <- line.Address
			}
		}
	})
	select {
	case p.health = <-address:
	case <-time.After(2 * time.Minute):
		t.Fatal("no health address")
	}
	p.await(t, "/readyz", http.StatusOK)
	url, err := os.ReadFile(filepath.Join(data, "server.url"))
	if err != nil {
		t.Fatal(err)
	}
	if p.bus, err = bus.Connect(t.Context(), bus.Config{Server: strings.TrimSpace(string(url))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.bus.Close)
	return p
}

func (p watchedProcess) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + p.health + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (p watchedProcess) await(t *testing.T, path string, status int) {
	t.Helper()
	for deadline := time.Now().Add(bustest.Timeout); ; time.Sleep(5 * time.Millisecond) {
		got, body := p.get(t, path)
		if got == status {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d %s, want %d", path, got, body, status)
		}
	}
}

// The process reports its numbers over HTTP and on the bus. While it stops it is not ready,
// but healthy, and finishes its running call. Its numbers are those of all workers of the process, so that no other test runs
// at the same time.
func TestHealth(t *testing.T) {
	workspace := t.TempDir()
	p := startWatched(t, workspace)
	if _, err := rpc.Submit(t.Context(), p.bus, "default", tools.Call{ID: "bad", Tool: "nosuch"}); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		event tools.ResultEvent
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		event, err := rpc.Submit(context.Background(), p.bus, "default", tools.Call{ID: "long", Tool: "shell",
			Args: json.RawMessage(`{"command":"touch began; while [ ! -e go ]; do sleep 0.01; done; echo finished"}`)})
		answered <- answer{event, err}
	}()
	for deadline := time.Now().Add(bustest.Timeout); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(workspace, "began")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the call does not start")
		}
	}

	// The worker counts and acknowledges a call shortly after it publishes the result.
	for deadline := time.Now().Add(bustest.Timeout); ; time.Sleep(5 * time.Millisecond) {
		_, numbers := p.get(t, "/metrics")
		missing := slices.DeleteFunc([]string{
			`stevedore_bus_connected 1`, `stevedore_calls_total{queue="default",tool="other",outcome="failed"} 1`, `stevedore_calls_running{queue="default"} 1`,
			`stevedore_slots{queue="default"} 64`, `stevedore_queue_waiting{queue="default"} 0`, `stevedore_queue_taken{queue="default"} 1`,
			`stevedore_dead_letters 0`, `process_resident_memory_bytes `,
		}, func(want string) bool { return strings.Contains(numbers, want) })
		if len(missing) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in the metrics:\n%s", missing, numbers)
		}
	}
	msg, err := p.bus.Conn().Request("$SRV.STATS."+rpc.ServiceName, nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var stats micro.Stats
	var did worker.Stats
	if err := json.Unmarshal(msg.Data, &stats); err != nil {
		t.Fatal(err)
	}
	for _, e := range stats.Endpoints {
		if e.Name == "call" {
			if err := json.Unmarshal(e.Data, &did); err != nil {
				t.Fatal(err)
			}
		}
	}
	if q := did.Queues["default"]; stats.Metadata["worker"] != "w1" || stats.Metadata["queues"] != "default" || did.Worker != "w1" || q.Running != 1 || q.Outcomes[tools.Failed] != 1 {
		t.Errorf("statistics on the bus: %s", msg.Data)
	}

	p.stop()
	p.await(t, "/readyz", http.StatusServiceUnavailable)
	if status, body := p.get(t, "/healthz"); status != http.StatusOK {
		t.Errorf("healthz while it stops: %d %s", status, body)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"status":"ok"}`) }))
	defer other.Close() // such as the monitoring of a nats-server
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"health", "--health", p.health}, 0, "ok: worker w1, stevedore/"},
		{[]string{"health", "--health", p.health, "--ready"}, 1, "starting or stopping"},
		{[]string{"health", "--health", "127.0.0.1:1"}, 1, "no worker answers at 127.0.0.1:1"},
		{[]string{"health", "--health", "127.0.0.1:1"}, 1, "only if it was started with --health 127.0.0.1:1"},
		{[]string{"health", "--health", strings.TrimPrefix(other.URL, "http://")}, 1, "is no worker, but another program"},
		{[]string{"health", "--health", "8780"}, 2, "want HOST:PORT"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, strings.NewReader(""), &out, &out); code != c.code || !strings.Contains(out.String(), c.text) {
			t.Errorf("%q: code %d, %s", c.args, code, out.String())
		}
	}
	if err := os.WriteFile(filepath.Join(workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; a.err != nil || !strings.Contains(a.event.ForLLM, "finished") {
		t.Errorf("running call: %q, %v", a.event.ForLLM, a.err)
	}
	if code := <-p.exited; code != 0 {
		t.Errorf("exit status %d", code)
	}
}
