//go:build linux

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// startTraced starts "stevedore up" with its page, and with a receiver of traces that needs a
// secret header. traces returns what the receiver got.
func startTraced(t *testing.T, args ...string) (u up, p page, traces func() string) {
	t.Helper()
	r := newReceiver(t)
	u = up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
	cmd := exec.Command(workerProgram, append(u.args(), args...)...)
	cmd.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20secret,x-more=header-canary", "OTEL_BSP_SCHEDULE_DELAY=50"}
	process, err := launchCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.stop() })
	u.process, u.url = process, urlOf(t, process)
	return u, pageOf(t, process), func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.spans) == 0 {
			t.Error("there are no traces")
		}
		return r.text.String()
	}
}

// page is the page of "stevedore up".
type page struct{ host, token string }

func pageOf(t *testing.T, p *process) page {
	t.Helper()
	var first struct{ Console string }
	if err := json.Unmarshal([]byte(p.first), &first); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(first.Console)
	if err != nil || u.Host == "" {
		t.Fatalf("the page is at %q: %v", first.Console, err)
	}
	return page{u.Host, u.Query().Get("token")}
}

func (p page) request(t *testing.T, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// get returns the headers and the body of a path of the page.
func (p page) get(t *testing.T, path string) string {
	t.Helper()
	resp := p.request(t, path)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(fmt.Sprintln(resp.Header, string(body)), path, "") // an error may repeat the path
}

// follow reads the events of the page until the returned function is called, which returns
// them.
func (p page) follow(t *testing.T) (events func() string) {
	t.Helper()
	resp := p.request(t, "/api/events")
	var text lockedBuffer
	go func() { _, _ = io.Copy(&text, resp.Body) }()
	return func() string {
		resp.Body.Close()
		if !strings.Contains(text.String(), "data:") {
			t.Error("there are no events of the page")
		}
		return text.String()
	}
}

// mcpAnswers runs commands over MCP, and reads its resources.
func mcpAnswers(t *testing.T, u up, commands []string) (overHTTP, overStdio, log string) {
	t.Helper()
	gateway, address := startMCP(t, "127.0.0.1:0", "--data", u.data, "--log-level", "debug")
	cmd := exec.Command(workerProgram, "mcp", "--data", u.data, "--log-level", "debug")
	cmd.Env = cleanEnvironment()
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	stdio, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	answers := func(c *mcp.ClientSession) string {
		var all strings.Builder
		keep := func(v any, err error) {
			text, _ := json.Marshal(v)
			fmt.Fprintln(&all, string(text), err)
		}
		keep(c.ListTools(t.Context(), nil))
		for _, command := range commands {
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell", Arguments: map[string]any{"command": command}})
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
			keep(res, err)
		}
		for _, path := range []string{"planted", "../data/planted", u.data + "/planted"} {
			keep(c.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": path}}))
			keep(c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file://" + path}))
		}
		resources, err := c.ListResources(t.Context(), nil)
		keep(resources, err)
		if err == nil {
			for _, r := range resources.Resources {
				keep(c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI}))
			}
		}
		return all.String()
	}
	overHTTP, overStdio = answers(dialMCP(t, address)), answers(stdio)
	if err := stdio.Close(); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{"HTTP": overHTTP, "stdio": overStdio} {
		if !strings.Contains(text, "PATH=") {
			t.Errorf("the command env did not run over %s: %.400s", name, text)
		}
	}
	_ = gateway.stop()
	return overHTTP, overStdio, gateway.stderr.String() + stderr.String()
}
