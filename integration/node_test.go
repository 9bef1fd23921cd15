package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A client in another language: node/client.mjs knows only the URL, the subjects
// and JSON, and uses every function of the protocol.
func TestNodeClient(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join("node", "node_modules", "@nats-io")); err != nil {
		t.Skip("the client's packages are not installed: run npm ci in integration/node")
	}
	u := startUp(t)
	client := exec.CommandContext(t.Context(), node, "client.mjs", u.url)
	client.Dir = "node"
	out, err := client.CombinedOutput()
	if err != nil {
		t.Errorf("client.mjs: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		t.Log(strings.TrimSpace(line))
	}
	if !strings.Contains(string(out), "ok: ") {
		t.Error("client.mjs took no step")
	}
	if t.Failed() {
		t.Logf("the worker said:\n%s", u.stderr)
	}
}
