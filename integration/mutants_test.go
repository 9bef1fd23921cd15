package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each old text occurs exactly once in its file, and each test exists. Only "make mutants"
// asks, so that no other run fails if somebody edits a line that the list quotes.
func TestMutantsMatchTheCode(t *testing.T) {
	if os.Getenv("STEVEDORE_MUTANTS") == "" {
		t.Skip("make mutants runs this test")
	}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("..", m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if n := bytes.Count(text, []byte(m.old)); n != 1 {
			t.Errorf("%s: %s contains the text %d times, want once: %s", m.name, m.file, n, m.old)
		}
		tests, err := filepath.Glob(filepath.Join("..", m.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, file := range tests {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		for name := range strings.SplitSeq(m.tests, "|") {
			if !bytes.Contains(all, []byte("func "+name+"(")) {
				t.Errorf("%s: %s has no test %s", m.name, m.pkg, name)
			}
		}
	}
}

// What "go test -v" prints of a test. A skipped part of a test is no skipped test.
var (
	failedTest  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	passedTest  = regexp.MustCompile(`(?m)^--- PASS: (\S+)`)
	skippedTest = regexp.MustCompile(`(?m)^--- SKIP: (\S+)`)
	timedOut    = []byte("panic: test timed out")
	panicked    = regexp.MustCompile(`(?m)^panic: `) // in a goroutine that no test called
)

// Without a safeguard, a test that guards it fails. Each mutant is built from an overlay,
// so no file changes. STEVEDORE_MUTANTS is 1 for all, or a regular expression of names. With
// STEVEDORE_MUTANTS_SIMULATED, the only test is the simulator, for so many simulated hours.
func TestMutants(t *testing.T) {
	selected := os.Getenv("STEVEDORE_MUTANTS")
	if selected == "" {
		t.Skip("make mutants runs this test")
	}
	if selected == "1" {
		selected = "."
	}
	names, err := regexp.Compile(selected)
	if err != nil {
		t.Fatal(err)
	}
	hours := 0
	if text := os.Getenv("STEVEDORE_MUTANTS_SIMULATED"); text != "" {
		if hours, err = strconv.Atoi(text); err != nil {
			t.Fatalf("STEVEDORE_MUTANTS_SIMULATED: %v", err)
		}
	}
	for _, m := range mutants {
		if !names.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			if hours > 0 {
				t.Parallel()
				m.simulate(t, hours)
				return
			}
			out, err := m.run(t)
			var exit *exec.ExitError
			failed := failedTest.FindSubmatch(out)
			switch {
			case err != nil && !errors.As(err, &exit):
				t.Fatal(err)
			case err == nil && !passedTest.Match(out):
				t.Skipf("the tests were skipped here:\n%s", out)
			case err == nil:
				t.Errorf("the mutant survived %s in %s", m.tests, m.pkg)
				for _, skipped := range skippedTest.FindAllSubmatch(out, -1) {
					t.Logf("%s was skipped here", skipped[1])
				}
			case failed != nil:
				t.Logf("%s fails", failed[1])
			case bytes.Contains(out, timedOut):
				t.Logf("%s does not end", m.tests)
				m.old, m.new = "", "" // on a machine that is too slow, this does not end either
				if out, err := m.run(t); err != nil {
					t.Errorf("no verdict: the tests of the unchanged code fail:\n%s", out)
				}
			case panicked.Match(out):
				t.Logf("%s end with a panic", m.tests)
			default:
				t.Errorf("no test failed; does the mutant build?\n%s", out)
			}
		})
	}
}

// run runs the tests of a mutant, or of the unchanged code if the mutant has no old text.
func (m mutant) run(t *testing.T) (out []byte, err error) {
	t.Helper()
	root, overlay := m.overlay(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-v", "-count=1", "-timeout=60s", "-overlay", overlay, "-run", "^("+m.tests+")$", "./"+m.pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "STEVEDORE_SLOW=1")
	return cmd.CombinedOutput()
}

// What the simulator prints of its first finding, which is not what its processes log.
var finding = regexp.MustCompile(`(?m)^    +\w+_test\.go:\d+: (.*)|^((?:panic|fatal error): .*)`)

// simulate runs seeds of the simulator, of two hours each, until one fails.
func (m mutant) simulate(t *testing.T, hours int) {
	root, overlay := m.overlay(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "./integration/simulate")
	list.Dir = root
	if linked, err := list.Output(); err != nil {
		t.Fatal(err)
	} else if !slices.Contains(strings.Fields(string(linked)), path.Join(module, path.Dir(m.file))) {
		t.Skip("the simulator does not contain the package")
	}
	program := filepath.Join(t.TempDir(), "simulate.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./integration/simulate")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for seed := 1; seed <= (hours+1)/2; seed++ {
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestSimulate$", "-test.v", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), "STEVEDORE_SIMULATE=1", fmt.Sprint("STEVEDORE_SIMULATE_SEED=", seed))
		if out, err := cmd.CombinedOutput(); bytes.Contains(out, timedOut) {
			t.Fatalf("no verdict: seed %d does not end", seed)
		} else if err != nil {
			t.Logf("dies in seed %d, within %d simulated hours: %.300s", seed, 2*seed, finding.ReplaceAll(finding.Find(out), []byte("$1$2")))
			return
		}
	}
	t.Errorf("the mutant survived %d simulated hours", hours)
}

// overlay returns the root of the repository, and a file for "go build -overlay" that replaces the mutant's file.
func (m mutant) overlay(t *testing.T) (root, overlay string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if m.old != "" && bytes.Count(text, []byte(m.old)) != 1 { // otherwise the tests of the unchanged code pass
		t.Fatalf("%s does not contain the text once: %s", m.file, m.old)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	spec, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	err = errors.Join(err,
		os.WriteFile(changed, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600),
		os.WriteFile(overlay, spec, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return root, overlay
}
