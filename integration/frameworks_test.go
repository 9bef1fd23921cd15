package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The adapters for agent frameworks, over stdio and over a bus. The checks have tools of the
// frameworks' forms; "make frameworks" uses the frameworks themselves.
func TestFrameworks(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script.jsonl")
	if err := os.WriteFile(script, []byte(strings.Repeat(`{"text":"hi there", "delay":"600s"}`+"\n", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	u := parseURL(t, startUp(t, "--console", "off", "--model", "script:"+script).url)
	for _, tt := range []struct{ name, program, dir, check string }{
		{"node", "node", "node", "frameworks_check.mjs"},
		{"python", "python3", "python", "frameworks_check.py"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(tt.program)
			if err != nil {
				t.Skipf("%s is not installed", tt.program)
			}
			args, steps := []string{tt.check, workerProgram, t.TempDir(), u.String()}, 5
			if _, err := os.Stat(filepath.Join("node", "node_modules", "@nats-io")); err != nil && tt.name == "node" {
				args, steps = args[:3], 4 // without npm ci, there is no client of the bus
			}
			runCheck(t, program, tt.dir, args, steps)
		})
	}
}

// runCheck runs a program that prints "ok: " for each step.
func runCheck(t *testing.T, program, dir string, args []string, steps int, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(cleanEnvironment(), env...)
	out, err := cmd.CombinedOutput()
	if got := strings.Count(string(out), "ok: "); err != nil || got != steps {
		t.Errorf("%d of %d steps, %v\n%s", got, steps, err, out)
	}
}

// Agents of four frameworks from npm read a long log with a scripted model.
func TestRealFrameworks(t *testing.T) {
	packages := os.Getenv("STEVEDORE_FRAMEWORKS")
	if packages == "" {
		t.Skip("make frameworks installs the frameworks and runs this test")
	}
	dir := filepath.Join(packages, "check") // the packages are found from here
	for _, file := range []string{"frameworks.mjs", "frameworks_real.mjs"} {
		text, err := os.ReadFile(filepath.Join("node", file))
		if err != nil {
			t.Fatal(err)
		}
		writeAll(t, filepath.Join(dir, file), string(text))
	}
	runCheck(t, "node", dir, []string{"frameworks_real.mjs", workerProgram, t.TempDir()}, 4)
}
