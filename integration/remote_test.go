package integration

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// A tool in another language: node/tool.mjs answers requests on a subject, and a
// worker offers it like a built-in tool.
func TestNodeTool(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join("node", "node_modules", "@nats-io")); err != nil {
		t.Skip("the tool's packages are not installed: run npm ci in integration/node")
	}
	u := startUp(t)
	served := exec.CommandContext(t.Context(), node, "tool.mjs", u.url, "acme.shout")
	served.Dir = "node"
	out, err := served.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := served.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { served.Process.Kill(); served.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("tool.mjs printed %q, %v", line, err)
	}
	start(t, "serve", "--server", u.url, "--data", t.TempDir(), "--queue", "shouting", "--remote-tool", "shout=acme.shout")

	call := func(args string) tools.ResultEvent {
		t.Helper()
		o := worker(t, "call", "shout", args, "--queue", "shouting", "--server", u.url, "--json")
		var event tools.ResultEvent
		if err := json.Unmarshal([]byte(o.stdout), &event); err != nil {
			t.Fatalf("call shout %s: exit code %d, %v\n%s%s", args, o.code, err, o.stdout, o.stderr)
		}
		return event
	}
	if e := call(`{"text":"land ho"}`); e.Outcome != tools.Completed || e.ForLLM != "LAND HO!" || e.ForUser != "LAND HO!" || e.Silent {
		t.Errorf("got %+v", e)
	}
	if e := call(`{"text":""}`); e.Error == nil || e.Error.Code != tools.CodeInvalidArguments || e.ForLLM != "there is nothing to shout" {
		t.Errorf("an error by header: got %+v", e)
	}
	if e := call(`{"txt":"x"}`); e.Error == nil || e.Error.Code != tools.CodeInvalidArguments || !strings.Contains(e.ForLLM, "txt") {
		t.Errorf("arguments that do not fit the definition: got %+v", e)
	}
}
