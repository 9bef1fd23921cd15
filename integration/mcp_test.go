//go:build unix

package integration

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const mcpToken = "alice-0123456789abcdef"

var mcpURL = regexp.MustCompile(`http://\S+/mcp`)

// startMCP starts "stevedore mcp --http" on an address and returns its URL.
func startMCP(t *testing.T, address string, args ...string) (*process, string) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(mcpToken), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := launchCommand(exec.Command("sh", append([]string{"-c", `echo starting; exec "$0" "$@"`, workerProgram, "mcp", "--http", address,
		"--token", "alice=file:" + token}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	await(t, p, "its URL", func() bool { return mcpURL.MatchString(p.stderr.String()) })
	return p, mcpURL.FindString(p.stderr.String())
}

type mcpBearer struct{}

func (mcpBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+mcpToken)
	return http.DefaultClient.Transport.RoundTrip(r)
}

func dialMCP(t *testing.T, url string) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: mcpBearer{}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its server may be gone
	return c
}

func callMCP(ctx context.Context, c *mcp.ClientSession, tool string, args map[string]any) (string, *mcp.CallToolResult, error) {
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", nil, err
	}
	if c, ok := res.Content[0].(*mcp.TextContent); ok {
		return c.Text, res, nil
	}
	return "", res, nil
}

// Two "stevedore mcp" share a data directory. If the one that runs the server is killed, the
// other one takes over: its clients go on, and find the artifacts of the first one.
func TestMCPTakeover(t *testing.T) {
	t.Parallel()
	data, workspace := filepath.Join(t.TempDir(), "data"), t.TempDir()
	first, firstURL := startMCP(t, "127.0.0.1:0", "--data", data, "--workspace", workspace)
	second, secondURL := startMCP(t, "127.0.0.1:0", "--data", data, "--workspace", workspace)
	a, b := dialMCP(t, firstURL), dialMCP(t, secondURL)

	_, big, err := callMCP(t.Context(), a, "shell", map[string]any{"command": "seq 50000"})
	if err != nil || len(big.Content) < 2 {
		t.Fatalf("%+v %v", big, err)
	}
	link := big.Content[1].(*mcp.ResourceLink)

	// A call of the second process runs in the first one.
	running := make(chan string, 1)
	go func() {
		text, _, err := callMCP(t.Context(), b, "shell", map[string]any{"command": "echo run >> runs; exec sleep 30"})
		if err != nil {
			text = err.Error()
		}
		running <- text
	}()
	await(t, second, "the call to begin", func() bool {
		runs, _ := os.ReadFile(filepath.Join(workspace, "runs")) // the shell makes it before echo writes
		return string(runs) == "run\n"
	})
	first.kill()

	if text, _, err := callMCP(t.Context(), b, "write_file", map[string]any{"path": "after.txt", "content": "after"}); err != nil {
		t.Errorf("a call after the kill: %q %v\n%s", text, err, second.stderr)
	}
	if text, err := os.ReadFile(filepath.Join(workspace, "after.txt")); string(text) != "after" {
		t.Errorf("the file has %q: %v\n%s", text, err, second.stderr)
	}
	page, err := b.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	if err != nil || !strings.HasPrefix(page.Contents[0].Text, "1\n2\n3\n") {
		t.Errorf("the artifact of the first process: %v", err)
	}
	text := <-running
	t.Logf("the once-only call: %s", text)
	if runs, err := os.ReadFile(filepath.Join(workspace, "runs")); string(runs) != "run\n" || err != nil {
		t.Errorf("the once-only call ran %q: %v", runs, err)
	}
	// A third process joins the one that took over.
	_, thirdURL := startMCP(t, "127.0.0.1:0", "--data", data, "--workspace", workspace)
	if text, _, err := callMCP(t.Context(), dialMCP(t, thirdURL), "read_file", map[string]any{"path": "after.txt"}); err != nil || !strings.Contains(text, "after") {
		t.Errorf("the third process: %q %v", text, err)
	}
}

// Gateways and workers are killed at random while a client calls through a round-robin
// proxy. It repeats a request that failed, with the same id: no call runs twice, and it
// finds its artifacts again.
func TestKillGatewaysAndWorkers(t *testing.T) {
	inMakeKill(t)
	u := startUp(t, "--queue", "home", "--lease", "2s")
	serve := []string{"serve", "--server", u.url, "--workspace", u.workspace, "--lease", "2s", many}
	start(t, append(serve, "--name", "survivor")...)
	gateway := []string{"--server", u.url}
	var targets []*url.URL
	var processes []*process
	for range 2 {
		p, address := startMCP(t, "127.0.0.1:0", gateway...)
		target, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		targets, processes = append(targets, target), append(processes, p)
	}
	var turn atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Host = targets[turn.Add(1)%2].Host
			r.Out.URL.Scheme = "http"
		},
		ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(proxy.Close)

	stop := make(chan struct{})
	var clients sync.WaitGroup
	var calls atomic.Int64
	for n := range 4 {
		clients.Go(func() {
			c := dialMCP(t, proxy.URL+"/mcp")
			var links []string
			for i := 0; ; i++ {
				select {
				case <-stop:
				default:
					id := fmt.Sprintf("call-%d-%d", n, i)
					res := insist(t, func() (*mcp.CallToolResult, error) {
						return c.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell", Meta: mcp.Meta{"io.github.stevedore-bus/callId": id},
							Arguments: map[string]any{"command": "echo " + id + " >> ledger; seq 20000"}})
					})
					if len(res.Content) > 1 {
						links = append(links, res.Content[1].(*mcp.ResourceLink).URI)
					}
					calls.Add(1)
					time.Sleep(100 * time.Millisecond) // a slow machine needs no more calls
					continue
				}
				break
			}
			for _, uri := range links {
				insist(t, func() (*mcp.ReadResourceResult, error) {
					return c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
				})
			}
			if len(links) == 0 {
				t.Error("no call had a big result")
			}
		})
	}
	for i := range 2 {
		victim, err := launch(append(serve, "--name", fmt.Sprintf("victim-%d", i))...)
		if err != nil {
			t.Fatal(err)
		}
		for before := calls.Load(); calls.Load() < before+int64(5+rand.IntN(10)); {
			time.Sleep(5 * time.Millisecond)
		}
		processes[i%2].kill()
		victim.kill()
		processes[i%2], _ = startMCP(t, targets[i%2].Host, gateway...)
	}
	close(stop)
	clients.Wait()
	ledger, err := os.ReadFile(filepath.Join(u.workspace, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for id := range strings.FieldsSeq(string(ledger)) {
		if seen[id]++; seen[id] > 1 {
			t.Errorf("%s ran %d times", id, seen[id])
		}
	}
	t.Logf("%d calls, %d ran", calls.Load(), len(seen))
}

// insist repeats a request that got no answer.
func insist[R any](t *testing.T, request func() (R, error)) R {
	for end := time.Now().Add(testTimeout); ; time.Sleep(20 * time.Millisecond) {
		res, err := request()
		if err == nil || time.Now().After(end) {
			if err != nil {
				t.Error(err)
			}
			return res
		}
	}
}
