package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The packages of a release work from the built files, in an empty home: "make try" names their
// folder. The tutorial and the recipes then run with the program of the archive.
func TestBuiltPackages(t *testing.T) {
	dist := os.Getenv("STEVEDORE_DIST")
	if dist == "" {
		t.Skip("STEVEDORE_DIST is not set; see make try")
	}
	t.Run("npx", func(t *testing.T) { testNpxWrap(t, filepath.Join(dist, "npm")) })
	t.Run("pip", func(t *testing.T) { testVenv(t, filepath.Join(dist, "python")) })
	t.Run("deb", func(t *testing.T) { testDeb(t, dist) })
}

// testNpxWrap wraps a server with "npx -y @stevedore-bus/stevedore mcp wrap -- npx -y SERVER". npm's
// own registry has the server.
func testNpxWrap(t *testing.T, dir string) {
	upstream, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		t.Skipf("npm: %v", err)
	}
	files, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(files, "big.txt")
	if err := os.WriteFile(big, []byte(strings.Repeat("a line\n", 20_000)+"the needle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := npx(t, dir, strings.TrimSpace(string(upstream)), "@stevedore-bus/stevedore", "mcp", "wrap", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", files)
	cmd.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	text := func(tool string, args map[string]any) string {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil || len(result.Content) == 0 {
			t.Fatalf("%s: %v", tool, err)
		}
		return result.Content[0].(*mcp.TextContent).Text
	}
	reference := text("read_text_file", map[string]any{"path": big})
	id := regexp.MustCompile(`id='([^']+)'`).FindStringSubmatch(reference)
	if len(reference) > 5_000 || id == nil {
		t.Fatalf("the result has %d characters: %.500s", len(reference), reference)
	}
	if found := text("read_result", map[string]any{"id": id[1], "grep": "needle"}); !strings.Contains(found, "20001: the needle") {
		t.Errorf("read_result: %s", found)
	}
}

// testVenv installs the wheel into a virtual environment without an index, and calls a worker
// through the program and the helper of the wheel.
func testVenv(t *testing.T, dir string) {
	tag := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	wheel := onlyFile(t, dir, "*manylinux*_"+tag+".*.whl")
	venv := t.TempDir()
	install(t, venv, "python3", "-m", "venv", ".")
	install(t, venv, filepath.Join(venv, "bin", "pip"), "install", "--no-index", wheel)
	up := startUp(t, "--console", "off")
	for _, line := range []string{
		"import stevedore_bus\nbus = stevedore_bus.connect()\nprint(bus.call('list_dir', {'path': '.'})['outcome'])\nbus.close()",
		"import subprocess, sys\nprint(subprocess.run([sys.prefix + '/bin/stevedore', 'version'], check=True, capture_output=True, text=True).stdout)\nprint('completed')",
		"import stevedore_bus.frameworks\nprint('completed')",
	} {
		cmd := exec.Command(filepath.Join(venv, "bin", "python"), "-c", line)
		cmd.Env = append(cleanEnvironment(), "HOME="+t.TempDir(), "NATS_URL="+up.url)
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("completed")) {
			t.Errorf("%s: %v, %s", line, err, out)
		}
	}
}

// testDeb unpacks the package of Debian, and reads its service and its manual.
func testDeb(t *testing.T, dist string) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	root := t.TempDir()
	install(t, root, "dpkg-deb", "-x", onlyFile(t, dist, "*_"+runtime.GOARCH+".deb"), root)
	install(t, root, filepath.Join(root, "usr/bin/stevedore"), "version")
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/stevedore.service"))
	if err != nil || !bytes.Contains(unit, []byte("ExecStart=/usr/bin/stevedore up")) {
		t.Errorf("the service: %v, %s", err, unit)
	}
	for _, file := range []string{"usr/share/man/man1/stevedore.1.gz", "etc/stevedore.yaml", "etc/stevedore.key"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
}
