package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestStoreInAnotherModule builds and tests a store outside of this module. It uses a
// copy, so that go may add the requirements of our current version to go.mod.
func TestStoreInAnotherModule(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds another module")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/extstore")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mod", "edit", "-replace", module + "=" + root}, {"test", "-mod=mod", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
}
