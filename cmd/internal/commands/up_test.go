package commands

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// The commands that a worker with another --data and --prefix prints reach it, and the doctor looks at its queues of agents.
func TestUpPrintsCommandsThatWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked, script := filepath.Join(dir, "asked.txt"), filepath.Join(dir, "turns.jsonl")
	if err := os.WriteFile(script, []byte(`{"text":"an answer"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(ctx context.Context, args ...string) (code int, out string) {
		var text strings.Builder
		code = run(ctx, args, strings.NewReader(""), &text, &text)
		return code, text.String()
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	printed := make(chan string)
	go func() {
		var text []byte
		for buf := make([]byte, 4096); !strings.Contains(string(text), "list_dir"); {
			n, err := out.Read(buf)
			if text = append(text, buf[:n]...); err != nil {
				break
			}
		}
		printed <- string(text)
	}()
	worker := []string{"--workspace", dir, "--data", filepath.Join(dir, "data"), "--prefix", "foo", "--model", "script:" + script}
	stop := bustest.Run(t, func(ctx context.Context) error {
		run(ctx, append(worker, "up", "--listen", "127.0.0.1:0", "--no-sync", "--console", "off", "--ask", "list_dir",
			"--channel", "log=file:"+asked, "--default-channel", "log"), strings.NewReader(""), in, os.Stderr)
		return in.Close()
	})
	defer stop()
	command := regexp.MustCompile(`(?m)^  stevedore (call list_dir .*)$`).FindStringSubmatch(<-printed)
	if command == nil {
		t.Fatal("up prints no command")
	}
	called := make(chan string)
	go func() {
		_, out := do(t.Context(), strings.Fields(command[1])...)
		called <- out
	}()
	var answer []string
	bustest.WaitUntil(t, "the question", func() bool {
		text, _ := os.ReadFile(asked)
		answer = regexp.MustCompile(`stevedore (approvals yes .*) \(or`).FindStringSubmatch(string(text))
		return answer != nil
	})
	if code, out := do(t.Context(), strings.Fields(answer[1])...); code != 0 {
		t.Fatalf("%s: exit code %d, %s", answer[1], code, out)
	}
	if out := <-called; !strings.Contains(out, "turns.jsonl") {
		t.Errorf("%s: %s", command[1], out)
	}
	if code, out := do(t.Context(), append(worker, "doctor")...); code != 0 || !strings.Contains(out, `queue "agent-2"`) {
		t.Errorf("doctor: exit code %d, %s", code, out)
	}
}
