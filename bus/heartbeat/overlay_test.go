package heartbeat_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The clock of a machine is not a test's to set. So the tests of jump_test.go are
// built with a package time whose wall clock, and nothing else, can be moved,
// for the server as for us: a minute's work for two cores, hence "make clock".
func TestClockJumps(t *testing.T) {
	if os.Getenv("STEVEDORE_CLOCK") == "" {
		t.Skip("builds the standard library; make clock runs it")
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(string(bytes.TrimSpace(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ old, new string }{
		{"import (\n", "import (\n\t\"sync/atomic\"\n"},
		// In a bubble times have no monotonic reading; it is what tells a jump.
		{"\tsec, nsec, mono := runtimeNow()\n", "\tsec, nsec, mono := runtimeNow()\n\tsec += WallOffset.Load()\n\tif mono == 0 {\n\t\tmono = runtimeNano()\n\t}\n"},
	} {
		if n := bytes.Count(source, []byte(change.old)); n != 1 {
			t.Fatalf("%s has %q %d times; this test knows another version of Go", original, change.old, n)
		}
		source = bytes.Replace(source, []byte(change.old), []byte(change.new), 1)
	}
	source = append(source, "\n// WallOffset is added to the wall clock, in seconds.\nvar WallOffset atomic.Int64\n"...)
	dir := t.TempDir()
	moved, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: moved}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{moved: source, overlay: replace} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-overlay", overlay, "-tags", "clockjump", "-count=1", "-v", "-run", "^TestJump", "-timeout", "20m", ".")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
