//go:build unix

package integration

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const mcpToken = "alice-0123456789abcdef"

var mcpURL = regexp.MustCompile(`http://\S+/mcp`)

// startMCP starts "worker mcp --http" and returns its URL.
func startMCP(t *testing.T, data, workspace string) (*process, string) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(mcpToken), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := launchCommand(exec.Command("sh", "-c", `echo starting; exec "$0" "$@"`, workerProgram, "mcp", "--http", "127.0.0.1:0",
		"--token", "alice=file:"+token, "--data", data, "--workspace", workspace))
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
	return http.DefaultTransport.RoundTrip(r)
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

// Two "worker mcp" share a data directory. If the one that runs the server is killed, the
// other one takes over: its clients go on, and find the artifacts of the first one.
func TestMCPTakeover(t *testing.T) {
	data, workspace := filepath.Join(t.TempDir(), "data"), t.TempDir()
	first, firstURL := startMCP(t, data, workspace)
	second, secondURL := startMCP(t, data, workspace)
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
		_, err := os.Stat(filepath.Join(workspace, "runs"))
		return err == nil
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
	_, thirdURL := startMCP(t, data, workspace)
	if text, _, err := callMCP(t.Context(), dialMCP(t, thirdURL), "read_file", map[string]any{"path": "after.txt"}); err != nil || !strings.Contains(text, "after") {
		t.Errorf("the third process: %q %v", text, err)
	}
}
