package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// On a full disk, status and /readyz of "stevedore up" say so before the first write fails. The
// test mounts a file system, which requires root.
func TestFullDiskIsNamedBeforeItFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=400m"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	data, filler := filepath.Join(dir, "data"), filepath.Join(dir, "filler")
	p := start(t, "up", "--listen", "127.0.0.1:0", "--data", data, "--console", "off", "--health", "127.0.0.1:0", "--workspace", t.TempDir())
	full := func() bool {
		return slices.ContainsFunc(problemsOf(t, []string{"--data", data}), func(p status.Problem) bool {
			return p.Code == string(trouble.Disk) && strings.Contains(p.Text, dir)
		})
	}
	bustest.WaitUntil(t, "the process is ready", func() bool { return readiness(t, p) == "ok" })
	if full() {
		t.Error("with space, status says that the disk is full")
	}
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "status to name the full disk", full)
	if got := readiness(t, p); !strings.Contains(got, "is full") {
		t.Errorf("/readyz says %q", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the process to be ready", func() bool { return readiness(t, p) == "ok" && !full() })
}
