package commands

import (
	"bufio"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

// For Codex, the output of a command that goes on appears as it comes, and is not stored.
func TestRunLiveAfter(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	t.Parallel()
	stdin, answer := io.Pipe()
	output, stdout := io.Pipe()
	stuck := time.AfterFunc(30*time.Second, func() { _ = answer.Close() })
	defer stuck.Stop()
	go func() {
		o := runOptions{threshold: 10_000, liveAfter: time.Millisecond}
		o.Connection.Data = t.TempDir()
		if err := o.run(t.Context(), []string{"sh", "-c", "echo first; read x; seq 1 9000"}, stdin, stdout, io.Discard); err != nil {
			t.Error(err)
		}
		_ = stdout.Close()
	}()
	lines := bufio.NewReader(output)
	if first, err := lines.ReadString('\n'); err != nil || first != "first\n" {
		t.Errorf("%v: %s", err, first)
	}
	_ = answer.Close() // the command reads the end, and goes on
	rest, err := io.ReadAll(lines)
	if err != nil || strings.Contains(string(rest), "are stored") || !strings.HasSuffix(string(rest), "\n9000\n") || strings.Count(string(rest), "\n") != 9000 {
		t.Errorf("%v: %.300s", err, rest)
	}
}
