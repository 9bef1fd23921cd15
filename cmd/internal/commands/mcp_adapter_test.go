package commands

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
)

// The files of the adapters call a program whose path needs quotes, and stay valid.
func TestAdapterFiles(t *testing.T) {
	t.Parallel()
	program, m, hooks := `/opt/my "tools"/it's`, hosts.Machine{Home: t.TempDir(), Getenv: func(string) string { return "" }}, 0
	for _, h := range hosts.All {
		files, err := adapterFiles(h, m, program, "--data", "a b")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := f.change(true); err != nil {
				t.Fatal(err)
			}
			if got := programOf([]adapterFile{f}); got != program && strings.Contains(string(f.text), program[:4]) {
				t.Errorf("%s: the program is %q", f.path, got)
			}
			text := string(f.text)
			if strings.Contains(text, "stevedore hook "+h.Name) || strings.Contains(text, `("stevedore"`) {
				t.Errorf("%s calls another program:\n%s", f.path, text)
			}
			if strings.HasSuffix(f.path, ".js") {
				hooks += strings.Count(text, `execFile("/opt/my \"tools\"/it's", ["hook", "`+h.Name+`", "--data", "a b"], {`)
				continue
			}
			var config struct {
				Hooks map[string][]struct{ Hooks []struct{ Command string } }
			}
			if err := json.Unmarshal(f.text, &config); err != nil {
				t.Errorf("%s: %v\n%s", f.path, err, text)
			}
			for _, groups := range config.Hooks {
				script := "run() { printf '%s\\n' \"$@\"; }; run " + groups[0].Hooks[0].Command
				words, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
				if err != nil {
					t.Skip(err)
				}
				if got := strings.Split(string(words), "\n"); !slices.Equal(got[:5], []string{program, "hook", h.Name, "--data", "a b"}) {
					t.Errorf("%s calls %q", f.path, got)
				}
				hooks++
			}
		}
	}
	if hooks != 7 {
		t.Errorf("%d calls in the files of all hosts, want 7", hooks)
	}
}
