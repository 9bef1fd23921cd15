package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The hook replaces a long output in the tool's own shape, also one that the host has cut, and
// says nothing in all other cases.
func TestHookOfClaudeCode(t *testing.T) {
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
	for name, input := range map[string]string{
		"short": event("PostToolUse", "Bash", map[string]any{"stdout": "hi"}), "another event": event("PreToolUse", "Bash", nil), "another tool": event("PostToolUse", "Read", map[string]any{"stdout": long}),
		"an image": event("PostToolUse", "Bash", map[string]any{"stdout": long, "isImage": true}), "no text": event("PostToolUse", "Bash", map[string]any{"output": long}),
		"a file that is gone": event("PostToolUse", "Bash", map[string]any{"stdout": "x", "persistedOutputPath": filepath.Join(dir, "gone")}),
		"no JSON":             "\x00{", "nothing": "", "half": event("PostToolUse", "Bash", map[string]any{"stdout": long})[:500],
	} {
		if got := hook(input); got != "" {
			t.Errorf("%s: the hook says %.200s", name, got)
		}
	}
	if got := hook(event("PostToolUse", "Bash", map[string]any{"stdout": long}), "--data", filepath.Join(whole, "none")); got != "" {
		t.Errorf("without a store, the hook says %.200s", got)
	}
}
