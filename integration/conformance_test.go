package integration

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The official conformance suite of MCP, against a server with its fixtures: through the proxy,
// and as tools of a worker behind "stevedore mcp".
func TestConformance(t *testing.T) {
	packages := os.Getenv("STEVEDORE_CONFORMANCE")
	if packages == "" {
		t.Skip("make conformance installs the suite and runs this test")
	}
	fixtures, err := os.ReadFile("node/conformance_server.mjs")
	if err != nil {
		t.Fatal(err)
	}
	server := filepath.Join(packages, "check", "conformance_server.mjs") // the packages are found from here
	writeAll(t, server, string(fixtures))
	node := filepath.Join(packages, "node_modules", ".bin", "node")
	for _, tt := range []struct {
		name, prefix string // of the tools
		args         []string
		passed       int    // checks
		unsupported  string // scenarios that fail
	}{
		{"wrap", "", []string{"mcp", "wrap", "--", node, server}, 43, ""},
		// The gateway offers tools and artifacts, but no prompts, no other resources, and no
		// sampling. A worker makes text of embedded resources, and leaves $schema out.
		{"gateway", "x_", []string{"mcp", "--workspace", t.TempDir(), "--mcp", "x=" + node + " " + server}, 18, `completion-complete tools-call-embedded-resource tools-call-mixed-content tools-call-with-logging
			tools-call-sampling tools-call-elicitation json-schema-2020-12 elicitation-sep1034-defaults server-sse-polling elicitation-sep1330-enums resources-read-text resources-read-binary
			resources-templates-read resources-subscribe resources-unsubscribe prompts-get-simple prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeAll(t, filepath.Join(dir, "token"), conformanceToken)
			at := 1
			if tt.name == "wrap" {
				at = 2
			}
			flags := []string{"--http", "127.0.0.1:0", "--token", "alice=file:" + filepath.Join(dir, "token"), "--data", filepath.Join(dir, "data")}
			args := append(append(append([]string{}, tt.args[:at]...), flags...), tt.args[at:]...)
			front := httptest.NewServer(&conformanceFront{target: servedAt(t, args), prefix: tt.prefix})
			defer front.Close()
			if tt.prefix != "" { // the worker starts the server
				for listed := false; !listed && t.Context().Err() == nil; {
					out, err := exec.CommandContext(t.Context(), workerProgram, "tools", "ls", "--data", filepath.Join(dir, "data")).Output()
					listed = err == nil && bytes.Contains(out, []byte(tt.prefix+"json_schema_2020_12_tool"))
				}
			}
			// Progress that comes while an earlier one is sent is merged, so that on a busy machine its scenario may fail once.
			for try := 1; ; try++ {
				passed, failed := runSuite(t, node, packages, front.URL, dir)
				t.Logf("%d checks passed", passed)
				want := strings.Join(strings.Fields(tt.unsupported), " ")
				if passed >= tt.passed && failed == want {
					break
				}
				if try == 3 {
					t.Fatalf("%d checks passed, want %d; the scenarios that fail: %s; want %s", passed, tt.passed, failed, want)
				}
			}
		})
	}
}

// runSuite runs the suite against a URL, and returns how many checks passed, and the scenarios that failed.
func runSuite(t *testing.T, node, packages, url, dir string) (passed int, failed string) {
	t.Helper()
	suite := exec.CommandContext(t.Context(), node, filepath.Join(packages, "node_modules", ".bin", "conformance"), "server", "--url", url+"/mcp", "--suite", "all", "-o", dir)
	out, _ := suite.CombinedOutput() // the checks decide
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^✗ ([a-z0-9-]+):`).FindAllStringSubmatch(string(out), -1) {
		names = append(names, line[1])
	}
	total := regexp.MustCompile(`Total: (\d+) passed`).FindStringSubmatch(string(out))
	if total == nil {
		t.Fatalf("the suite did not end:\n%s", out)
	}
	passed, _ = strconv.Atoi(total[1])
	return passed, strings.Join(names, " ")
}

const conformanceToken = "token-0123456789abcdef"

// servedAt starts the program and returns the URL that it serves.
func servedAt(t *testing.T, args []string) *url.URL {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), workerProgram, args...)
	cmd.Env = cleanEnvironment()
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if found := regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`).FindString(lines.Text()); found != "" {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return parseURL(t, found)
		}
	}
	t.Fatalf("%q serves nothing", args)
	return nil
}

// conformanceFront adds the token, which the suite does not know, and takes the prefix from the
// names of tools.
type conformanceFront struct {
	target *url.URL
	prefix string
}

func (f *conformanceFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if bytes.Contains(body, []byte(`"tools/call"`)) {
		body = bytes.Replace(body, []byte(`"name":"`), []byte(`"name":"`+f.prefix), 1)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = f.target.Scheme, f.target.Host
		p.Out.Header.Set("Authorization", "Bearer "+conformanceToken)
	}}
	if f.prefix != "" {
		w = &renamer{w, `"name":"` + f.prefix}
	}
	proxy.ServeHTTP(w, r)
}

// renamer removes the prefix of names in what it writes. No name is cut: the server flushes whole
// messages.
type renamer struct {
	http.ResponseWriter
	prefixed string
}

func (w *renamer) WriteHeader(code int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(code)
}

func (w *renamer) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(bytes.ReplaceAll(p, []byte(w.prefixed), []byte(`"name":"`)))
	return len(p), err
}

func (w *renamer) Flush() { w.ResponseWriter.(http.Flusher).Flush() }
