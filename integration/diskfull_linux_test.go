package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/integration/slow"
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

// If the results fill their share of a small disk, they are cut, and everything else works: status names the
// bucket, calls run, and a removal makes room.
func TestFullStoreIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=250m"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	data := []string{"--data", filepath.Join(dir, "data")}
	start(t, append([]string{"up", "--listen", "127.0.0.1:0", "--console", "off", "--workspace", t.TempDir()}, data...)...)
	run := func(args ...string) outcome { t.Helper(); return worker(t, append(args, data...)...) }
	for i, cut := range []bool{false, true, true} {
		o := run("call", "shell", fmt.Sprintf("command=yes 'line of the result %d' | head -c 40000000", i), "--id", fmt.Sprint("big-", i))
		if o.code != 0 || strings.Contains(o.stdout, "the artifact store is full") != cut {
			t.Fatalf("result %d: exit code %d\n%.1000s%s", i, o.code, o.stdout, o.stderr)
		}
	}
	named := func() (remedy string) {
		for _, p := range problemsOf(t, data) {
			if m := pasted.FindStringSubmatch(p.Advice); p.Code == status.StreamNearlyFull && p.Name == "OBJ_stevedore_blobs" && m != nil {
				remedy = m[1]
			}
		}
		return remedy
	}
	remedy := named()
	if remedy == "" {
		t.Fatalf("status names no full bucket: %+v", problemsOf(t, data))
	}
	if o := run("call", "list_dir", "path=."); o.code != 0 {
		t.Errorf("a call beside a full store: %s%s", o.stdout, o.stderr)
	}
	if o := run("artifacts", "rm", "big-0"); o.code != 0 {
		t.Errorf("rm: %s%s", o.stdout, o.stderr)
	}
	bustest.WaitUntil(t, "the sweep to make room", func() bool {
		cmd := exec.Command("sh", "-c", `exec "$0"`+strings.TrimPrefix(remedy, "stevedore"), workerProgram)
		cmd.Env = cleanEnvironment()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", remedy, err, out)
		}
		return named() == ""
	})
	if o := run("call", "shell", "command=yes again | head -c 20000000"); o.code != 0 || strings.Contains(o.stdout, "is full") {
		t.Errorf("after the sweep: %.1000s%s", o.stdout, o.stderr)
	}
}
