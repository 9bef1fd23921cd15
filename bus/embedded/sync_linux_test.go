package embedded_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
)

// The embedded server syncs each message to the disk before it acknowledges it. strace
// observes the system calls of a server process: each acknowledged publish is a write to a
// file that is open with O_SYNC, or has an fsync of its own.
func TestEachPublishIsSynced(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %v, %s", err, out)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	serverURL, kill := startServerProcess(t, t.TempDir(), "127.0.0.1:0", strace, "-f", "-y", "-e", "trace=fsync,fdatasync,openat", "-o", trace)
	b, err := bus.Connect(t.Context(), bus.Config{Server: serverURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	synced := func() (n int) {
		data, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			file := strings.Contains(line, "STEVEDORE_RESULTS/msgs/") && strings.Contains(line, ".blk")
			if file && (strings.Contains(line, "fsync(") || strings.Contains(line, "fdatasync(") || strings.Contains(line, "O_SYNC")) {
				n++
			}
		}
		return n
	}
	const count = 20
	for i := range count {
		before := synced()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", fmt.Sprint(i)), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if synced() == before {
			t.Fatalf("publish %d was acknowledged before a sync", i)
		}
	}
	kill()
}
