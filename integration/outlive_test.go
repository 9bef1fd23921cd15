//go:build unix

package integration

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// A reader may take the first line, the URL, and close the pipe, as head does. The
// worker goes on, logs that once, and the outbox does not fill up.
func TestUpOutlivesWhoReadsItsOutput(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	if err := u.process.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		// Child processes of tools still get SIGPIPE: yes dies of it silently.
		got := worker(t, "call", "shell", `command={ yes; echo "ended with $?" >&2; } | head -n 1`, "--data", u.data)
		if got.code != 0 || !strings.Contains(got.stdout, "ended with 141") {
			t.Fatalf("call: %+v\n%s", got, u.stderr)
		}
	}
	l := load{plain: connect(t, u.url)}
	l.until("deliver all", func() bool {
		return l.count("STEVEDORE_OUTBOX", "stevedore.notify.*") == 0 && strings.Contains(u.stderr.String(), "the reader of standard output is gone")
	})
	if err := u.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if log := u.stderr.String(); strings.Count(log, "the reader of standard output is gone") != 1 || strings.Contains(log, "handling failed") {
		t.Errorf("the log is\n%s", log)
	}
}

// A demo whose reader has closed the pipe removes its files.
func TestUnwatchedDemoCleansUp(t *testing.T) {
	slow.Test(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p, err := launch("demo", "--workspace", "..")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	p.awaitEnd(t)
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || p.stderr.String() != "" {
		t.Errorf("exit code %d, and it says %q", code, p.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func (p *process) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(testTimeout):
		p.kill()
		t.Fatalf("it does not end\n%s", p.stderr)
	}
}
