package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// "make api" finds incompatible changes of the packages that docs/api.md lists, and no others,
// and accepts those that the changelog describes.
func TestCheckOfTheAPI(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the script needs bash")
	}
	script, err := filepath.Abs("deploy/release/api.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command := func(args ...string) (string, error) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	commit := func(files map[string]string) {
		t.Helper()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-qm", "a change"}} {
			if out, err := command(append([]string{"git"}, args...)...); err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
		}
	}
	check := func(want string, fails bool) {
		t.Helper()
		if out, err := command("bash", script); (err != nil) != fails || !strings.Contains(out, want) {
			t.Errorf("printed %q and ended with %v, want %q", out, err, want)
		}
	}
	commit(map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n", "CHANGELOG.md": "# Changelog\n\n## v0.1.0\n",
		"docs/api.md": "| package | for whom |\n|---|---|\n| `kept` | everybody, not `free` |\n",
		"kept/a.go":   "package kept\n\nfunc F() {}\n", "free/a.go": "package free\n\nfunc F() {}\n",
	})
	if out, err := command("git", "tag", "v0.1.0"); err != nil {
		t.Fatal(err, out)
	}
	check("there is no release to compare with", false) // but its own commit
	commit(map[string]string{"free/a.go": "package free\n", "kept/b.go": "package kept\n\nfunc G() {}\n"})
	check("api: compatible with v0.1.0", false)
	commit(map[string]string{"kept/a.go": "package kept\n\nfunc F(int) {}\n"})
	check("- ./kept.F: changed from func() to func(int)", true)
	commit(map[string]string{"CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n**Changes of the Go API**\n\n- `kept.F` takes a number.\n"})
	check("which CHANGELOG.md describes", false)
	if err := os.RemoveAll(filepath.Join(dir, "kept")); err != nil {
		t.Fatal(err)
	}
	commit(map[string]string{"CHANGELOG.md": "# Changelog\n\n## Unreleased\n"})
	check("- ./kept: removed", true)
}
