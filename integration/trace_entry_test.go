package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// Traces also lead through ticks, requests to the page, and requests of MCP clients.
func TestTraceOfTicksPageAndMCP(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const pageTrace, mcpTrace = "11111111111111111111111111111111", "22222222222222222222222222222222"
	r := newReceiver(t)
	environment := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20secret", "OTEL_BSP_SCHEDULE_DELAY=50"}
	u := up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
	cmd := exec.Command(workerProgram, append(u.args(), "--console", "127.0.0.1:0")...)
	cmd.Env = environment
	p, err := launchCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.stop() })
	u.process, u.url = p, urlOf(t, p)

	if o := worker(t, "cron", "add", "beat", "list_dir", "path=.", "--every", "1s", "--session", "ticks", "--data", u.data); o.code != 0 {
		t.Fatalf("cron add: %s", o.stderr)
	}

	var first struct{ Console string }
	if err := json.Unmarshal([]byte(p.first), &first); err != nil {
		t.Fatal(err)
	}
	page, err := url.Parse(first.Console)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest("POST", "http://"+page.Host+"/api/sessions/talk/messages", strings.NewReader(`{"prompt":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+page.Query().Get("token"))
	req.Header.Set("traceparent", "00-"+pageTrace+"-00f067aa0ba902b7-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()

	gateway := exec.Command(workerProgram, "mcp", "--data", u.data)
	gateway.Env = append(cleanEnvironment(), append(environment, "NATS_URL="+u.url)...)
	in, err := gateway.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := gateway.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_dir","arguments":{"path":"."},"_meta":{"traceparent":"00-` + mcpTrace + `-00f067aa0ba902b7-01"}}}`,
	} {
		fmt.Fprintln(in, m)
		for strings.Contains(m, `"id"`) && lines.Scan() && !strings.Contains(lines.Text(), `"result"`) {
		}
	}
	in.Close()
	if err := gateway.Wait(); err != nil {
		t.Errorf("stevedore mcp: %v", err)
	}

	tick := func() (trace string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.spans {
			if s.Name == "tick cron" {
				return s.TraceID
			}
		}
		return ""
	}
	for _, c := range []struct {
		trace  func() string
		parent string
		chain  []string // each span is the parent of the next one
	}{
		{tick, "", []string{"tick cron", "execute_tool list_dir"}},
		{func() string { return pageTrace }, "00f067aa0ba902b7", []string{"POST /api/sessions/{session}/messages", "publish agent"}},
		{func() string { return mcpTrace }, "00f067aa0ba902b7", []string{"tools/call list_dir", "publish default", "execute_tool list_dir"}},
	} {
		var spans map[string]otlpSpan
		missing := func() string {
			spans = r.of(c.trace())
			for _, name := range c.chain {
				if _, ok := spans[name]; !ok {
					return name
				}
			}
			return ""
		}
		for deadline := time.Now().Add(testTimeout); missing() != ""; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no span %q in %v\n%s", missing(), spans, p.stderr)
			}
		}
		parent := c.parent
		for _, name := range c.chain {
			if got := spans[name].ParentSpanID; got != parent {
				t.Errorf("the parent of %q is %q, want %q", name, got, parent)
			}
			parent = spans[name].SpanID
		}
	}
}
