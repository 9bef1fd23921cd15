package commands

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/savings"
)

// The hook replaces a long output in the tool's own shape, also one that the host has cut, and
// says nothing in all other cases.
func TestHookOfClaudeCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("a line of output\n", 2000) + "--- FAIL: TestX\nthe end\n"
	whole := filepath.Join(dir, "whole.txt")
	if err := os.WriteFile(whole, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	event := func(name, tool string, response map[string]any) string {
		body, err := json.Marshal(map[string]any{"hook_event_name": name, "tool_name": tool, "tool_input": map[string]any{"command": "make"}, "tool_response": response})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	hook := func(input string, flags ...string) string {
		t.Helper()
		var stdout, stderr strings.Builder
		args := append([]string{"hook", "claude-code", "--data", filepath.Join(dir, "data")}, flags...)
		if code := run(t.Context(), args, strings.NewReader(input), &stdout, &stderr); code != 0 || stderr.String() != "" {
			t.Errorf("exit %d, %s", code, stderr.String())
		}
		return stdout.String()
	}
	for name, response := range map[string]map[string]any{
		"whole": {"stdout": long, "stderr": "a warning", "interrupted": false, "isImage": false},
		"cut":   {"stdout": long[:100], "stderr": "a warning", "interrupted": false, "isImage": false, "persistedOutputPath": whole, "persistedOutputSize": len(long)},
	} {
		var answer struct {
			Output struct {
				Name    string         `json:"hookEventName"`
				Updated map[string]any `json:"updatedToolOutput"`
			} `json:"hookSpecificOutput"`
		}
		if err := json.Unmarshal([]byte(hook(event("PostToolUse", "Bash", response))), &answer); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		stdout, _ := answer.Output.Updated["stdout"].(string)
		if answer.Output.Name != "PostToolUse" || len(answer.Output.Updated) != 4 || answer.Output.Updated["stderr"] != "a warning" ||
			len(stdout) > 1500 || !strings.Contains(stdout, "2001: --- FAIL: TestX") || !strings.Contains(stdout, " read run_") || !strings.HasSuffix(stdout, "the end") {
			t.Errorf("%s: %+v", name, answer)
		}
	}
	stderr := hook(event("PostToolUse", "Bash", map[string]any{"stdout": "hi", "stderr": long}))
	if !strings.Contains(stderr, "[2003 lines, ") || !strings.Contains(stderr, `"stderr":""`) {
		t.Errorf("a long standard error: %.300s", stderr)
	}
	for name, input := range map[string]string{
		"short": event("PostToolUse", "Bash", map[string]any{"stdout": "hi"}), "another event": event("PreToolUse", "Bash", nil), "another tool": event("PostToolUse", "Read", map[string]any{"stdout": long}),
		"an image": event("PostToolUse", "Bash", map[string]any{"stdout": long, "isImage": true}), "no text": event("PostToolUse", "Bash", map[string]any{"output": long}),
		"a file that is gone": event("PostToolUse", "Bash", map[string]any{"stdout": "x", "persistedOutputPath": filepath.Join(dir, "gone")}),
		"no JSON":             "\x00{", "nothing": "", "a page that was asked for": strings.Replace(event("PostToolUse", "Bash", map[string]any{"stdout": long}), "make", "stevedore read run_1", 1), "half": event("PostToolUse", "Bash", map[string]any{"stdout": long})[:500],
	} {
		if got := hook(input); got != "" {
			t.Errorf("%s: the hook says %.200s", name, got)
		}
	}
	// The four outputs of the shell are counted, and the page when it is read.
	if sums, err := savings.Read(filepath.Join(dir, "data"), time.Now()); err != nil || len(sums) != 1 || sums[0].Host != "claude-code" || sums[0].Results != 4 || sums[0].Alone != 3*2200+2 {
		t.Errorf("counted: %v %+v", err, sums)
	}
	if got := hook(event("PostToolUse", "Bash", map[string]any{"stdout": long}), "--data", filepath.Join(whole, "none")); got != "" {
		t.Errorf("without a store, the hook says %.200s", got)
	}
}

// Gemini CLI gets the short form as the reason of a refusal.
func TestHookOfGeminiCLI(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for output, want := range map[string]bool{strings.Repeat("a line of output\n", 2000) + "the end\n": true, "short": false} {
		body, err := json.Marshal(map[string]any{"hook_event_name": "AfterTool", "tool_name": "run_shell_command", "tool_input": map[string]any{"command": "make"}, "tool_response": map[string]any{"llmContent": output}})
		if err != nil {
			t.Fatal(err)
		}
		var stdout strings.Builder
		if code := run(t.Context(), []string{"hook", "gemini-cli", "--data", data}, strings.NewReader(string(body)), &stdout, io.Discard); code != 0 {
			t.Errorf("exit %d", code)
		}
		var answer struct{ Decision, Reason string }
		_ = json.Unmarshal([]byte(stdout.String()), &answer) // it may be empty
		if (answer.Decision == "deny" && strings.Contains(answer.Reason, " read run_") && strings.Contains(answer.Reason, "the end")) != want || want == (stdout.String() == "") {
			t.Errorf("the answer is %s", stdout.String())
		}
	}
}

// The command that the hook gives to Codex has the effects of the first one, whatever quotes and
// syntax of bash it has. Rules that forbid or ask, wherever they are, silence the hook.
func TestHookOfCodex(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CODEX_HOME", "")
	project := filepath.Join(home, "a[b", "project")
	hook := func(command string) string {
		t.Helper()
		event, err := json.Marshal(map[string]any{"hook_event_name": "PreToolUse", "cwd": project, "tool_name": "Bash", "tool_input": map[string]any{"command": command, "workdir": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		var stdout strings.Builder
		if code := run(t.Context(), []string{"hook", "codex", "--data", filepath.Join(home, "its data")}, strings.NewReader(string(event)), &stdout, io.Discard); code != 0 {
			t.Errorf("exit %d", code)
		}
		var answer struct {
			Output struct {
				Name     string            `json:"hookEventName"`
				Decision string            `json:"permissionDecision"`
				Updated  map[string]string `json:"updatedInput"`
			} `json:"hookSpecificOutput"`
		}
		if stdout.String() == "" {
			return ""
		}
		if err := json.Unmarshal([]byte(stdout.String()), &answer); err != nil || answer.Output.Name != "PreToolUse" || answer.Output.Decision != "allow" || answer.Output.Updated["workdir"] != "x" {
			t.Errorf("%v: %s", err, stdout.String())
		}
		return answer.Output.Updated["command"]
	}
	const command = "if [[ 'it is' == it* ]]; then\n  echo \"$((1+1)) it's\"\nfi; exit 3"
	got := hook(command)
	self, err := os.Executable()
	if want := cli.ShellWord(self) + " run --host codex --data '" + filepath.Join(home, "its data") + "' -- "; err != nil || !strings.HasPrefix(got, want) {
		t.Fatalf("%v: the command is %s, want %s first", err, got, want)
	}
	_, rest, _ := strings.Cut(got, " -- ")
	out, err := exec.CommandContext(t.Context(), "bash", "-lc", rest).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || string(out) != "2 it's\n" {
		t.Errorf("%s: %v, %s", rest, err, out)
	}
	for _, silent := range []string{"", "stevedore read run_1 | head", "/opt/stevedore run -- make", programName() + " read run_1"} {
		if got := hook(silent); got != "" {
			t.Errorf("%q becomes %s", silent, got)
		}
	}
	for _, dir := range []string{filepath.Join(home, ".codex"), filepath.Join(project, ".codex"), filepath.Join(filepath.Dir(project), ".codex")} {
		rules := filepath.Join(dir, "rules", "default.rules")
		if err := os.MkdirAll(filepath.Dir(rules), 0o700); err != nil {
			t.Fatal(err)
		}
		for text, silent := range map[string]bool{`prefix_rule(pattern=["rm"], decision="forbidden")`: true, `prefix_rule(pattern=["git"], decision="allow")`: false} {
			if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := hook("make"); (got == "") != silent {
				t.Errorf("with %s in %s: %s", text, rules, got)
			}
		}
		if err := os.Remove(rules); err != nil {
			t.Fatal(err)
		}
	}
}
