package heartbeat_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A test cannot set the clock of the machine. Therefore TestClockJumps builds the
// tests of jump_test.go with a package time whose wall clock can be moved. The build
// takes about a minute, so only "make clock" runs it.
func TestClockJumps(t *testing.T) {
	if os.Getenv("STEVEDORE_CLOCK") == "" {
		t.Skip("builds the standard library; run it with make clock")
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
		// In a bubble, times have no monotonic reading, but KeepTime needs it to see jumps.
		{"\tsec, nsec, mono := runtimeNow()\n", "\tsec, nsec, mono := runtimeNow()\n\tsec += WallOffset.Load()\n\tif mono == 0 {\n\t\tmono = runtimeNano()\n\t}\n"},
	} {
		if n := bytes.Count(source, []byte(change.old)); n != 1 {
			t.Fatalf("%s contains %q %d times; this test expects another version of Go", original, change.old, n)
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
