package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// Real MCP clients and servers from npm: node/mcp.mjs. "make conformance" runs each client with each server.
func TestMCPClients(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join("node", "node_modules", "@modelcontextprotocol", "server-everything")); err != nil {
		t.Skip("the MCP packages are not installed: run npm ci in integration/node")
	}
	args := []string{"mcp.mjs", workerProgram, t.TempDir()}
	if os.Getenv("STEVEDORE_CONFORMANCE") != "" {
		args = append(args, "all")
	}
	clients := exec.CommandContext(t.Context(), node, args...)
	clients.Dir = "node"
	clients.Env = cleanEnvironment()
	out, err := clients.CombinedOutput()
	if err != nil {
		t.Errorf("mcp.mjs: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		t.Log(strings.TrimSpace(line))
	}
	if !strings.Contains(string(out), "ok: all") {
		t.Error("mcp.mjs did not take its last step")
	}
}
