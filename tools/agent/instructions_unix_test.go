//go:build unix

package agent_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A named pipe in the place of a file has no instructions; to open it would wait for its writer.
func TestInstructionsAreNoPipe(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"AGENTS.md": "Be brief."})
	in, err := agent.FindInstructions(dir)
	if err == nil {
		err = os.Remove(filepath.Join(dir, "AGENTS.md"))
	}
	if err == nil {
		err = syscall.Mkfifo(filepath.Join(dir, "AGENTS.md"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err := in.Read(); err != nil || text.Text != "" {
		t.Errorf("%+v, %v", text, err)
	}
}
