//go:build unix

package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// hostile creates files that must not be read and returns their paths.
func hostile(t *testing.T, b *fixture) []string {
	t.Helper()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	must(t, os.WriteFile(secret, []byte("canary\n"), 0o600))
	must(t, os.Mkdir(filepath.Join(b.dir, "sub"), 0o755))
	must(t, os.Symlink(secret, filepath.Join(b.dir, "abs-link")))
	up, err := filepath.Rel(b.dir, secret)
	must(t, err)
	must(t, os.Symlink(up, filepath.Join(b.dir, "rel-link")))
	must(t, os.Symlink(outside, filepath.Join(b.dir, "dir-link")))
	must(t, os.Symlink("loop", filepath.Join(b.dir, "loop")))
	must(t, os.Link(secret, filepath.Join(b.dir, "hard-link")))
	must(t, syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o644))
	return []string{
		"../" + filepath.Base(outside) + "/secret", "sub/../../x", "..", secret, "/etc/passwd", "a\x00b",
		"abs-link", "rel-link", "dir-link/secret", "loop", "hard-link", "fifo", "sub", ".", "sub/",
		strings.Repeat("deep/", 3000) + "x",
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadFileRefusesHostilePaths(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	for _, path := range hostile(t, b) {
		b.fails("read_file", args{"path": path})
	}
}

func TestPathsOutsideAreNamedSo(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	hostile(t, b)
	for _, path := range []string{"/etc", "..", "../..", "dir-link"} {
		b.fails("list_dir", args{"path": path}, "outside the workspace")
		b.fails("grep", args{"path": path, "pattern": "canary"}, "outside the workspace")
		b.fails("shell", args{"working_dir": path, "command": "pwd"}, "outside the workspace")
	}
	b.fails("read_file", args{"path": "abs-link"}, "outside the workspace")
	b.fails("read_file", args{"path": "fifo"}, "named pipe")
	b.fails("read_file", args{"path": "sub"}, "directory")
	b.fails("read_file", args{"path": "hard-link"}, "hard link")
	b.fails("list_dir", args{"path": "fifo"}, "not a directory")
	b.fails("read_file", args{"path": "absent"}, "failed to read", "not found")
}

// Only root can create a device.
func TestReadFileRefusesDevices(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	if err := syscall.Mknod(filepath.Join(b.dir, "zero"), syscall.S_IFCHR|0o666, 1<<8|5); err != nil {
		t.Skipf("cannot make a device here: %v", err)
	}
	b.fails("read_file", args{"path": "zero"}, "device")
	if got := b.ok("grep", args{"pattern": "x"}); got != `No matches for pattern "x" in 0 files` {
		t.Errorf("grep = %q", got)
	}
}

func TestAbsolutePathsInsideAreTaken(t *testing.T) {
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "ws")
	must(t, os.Symlink(real, link))
	b := newFixture(t, builtin.Config{Workspace: link})
	b.file("a.txt", "hello")
	for _, path := range []string{filepath.Join(link, "a.txt"), filepath.Join(real, "a.txt"), "a.txt", "./x/../a.txt"} {
		if got := b.ok("read_file", args{"path": path}); got != "hello" {
			t.Errorf("read_file %q = %q", path, got)
		}
	}
}

func TestLinksInsideAreFollowed(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	b.file("d/a", "text")
	must(t, os.Symlink("d/a", filepath.Join(b.dir, "l")))
	if got := b.ok("read_file", args{"path": "l"}); got != "text" {
		t.Errorf("read_file = %q", got)
	}
}

func FuzzReadFilePath(f *testing.F) {
	b := newFixture(f, builtin.Config{})
	outside := f.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("canary"), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "out")); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"a", "../secret", "out/secret", outside + "/secret", "/", "a/./b/../../..", "out/../out/secret", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		res := (&fixture{t: t, dir: b.dir, reg: b.reg}).run(t.Context(), "read_file", args{"path": path})
		if !res.IsError {
			t.Errorf("read_file %q in an empty workspace = %q", path, res.ForLLM)
		}
	})
}
