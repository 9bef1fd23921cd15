package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The store of the example of offload/record, whose tests run there, compiles outside of this
// module, where it has no access to internal packages.
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
	for from, to := range map[string]string{"testdata/extstore/go.mod": "go.mod", "../offload/record/example_test.go": "example_test.go", "../offload/record/store_test.go": "store_test.go"} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"mod", "edit", "-replace", module + "=" + root}, {"vet", "-mod=mod", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
}
