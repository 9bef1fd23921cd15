//go:build unix

package integration

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A terminal that is closed is a stop like any other: the running call gets its
// time, also when the signal comes twice.
func TestHangupLetsCallsFinish(t *testing.T) {
	// Caught here, the signal is not ignored in what this process starts, also if
	// the tests run under nohup.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	u := startUp(t)
	u.runUntilTold(t)
	u.signal(t, syscall.SIGHUP)
	u.signal(t, syscall.SIGHUP)
	u.awaitStopping(t)
	u.signal(t, syscall.SIGHUP)
	if err := os.WriteFile(filepath.Join(u.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	u.awaitEnd(t)
	if _, err := os.Stat(filepath.Join(u.workspace, "finished")); u.err != nil || err != nil {
		t.Errorf("it ended with %v; the call did not finish: %v\n%s", u.err, err, u.stderr)
	}
}

// Under nohup a hangup is ignored, as ever.
func TestNohupOutlivesHangup(t *testing.T) {
	u := startUpBy(t, `trap "" HUP; exec "$@"`)
	u.signal(t, syscall.SIGHUP)
	if got := worker(t, "call", "read_file", "path=note.txt", "--data", u.data); got.code != 0 {
		t.Errorf("call: %+v\n%s", got, u.stderr)
	}
	if err := u.stop(); err != nil {
		t.Error(err)
	}
	if log := u.stderr.String(); strings.Count(log, "stopping") != 1 || !strings.Contains(log, `"calls":0`) {
		t.Errorf("the log is\n%s", log)
	}
}

// The first interrupt says what is waited for and how long, the second one ends
// the process, also where a shell made it ignore interrupts.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	u := startUpBy(t, `trap "" INT; exec "$@"`, "--grace", "1h")
	u.runUntilTold(t)
	u.signal(t, os.Interrupt)
	u.awaitStopping(t)
	if log := u.stderr.String(); !strings.Contains(log, `"calls":1,"grace":"1h0m0s"`) {
		t.Errorf("the log is\n%s", log)
	}
	u.signal(t, os.Interrupt)
	u.awaitEnd(t)
	if code := u.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// startUpBy is startUp by a shell script that executes its arguments.
func startUpBy(t *testing.T, script string, args ...string) up {
	t.Helper()
	u := up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
	if err := os.WriteFile(filepath.Join(u.workspace, "note.txt"), []byte("A note.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	u.process, err = launchCommand(exec.Command("sh", append(append([]string{"-c", script, "sh", workerProgram}, u.args()...), args...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.kill)
	u.url = urlOf(t, u.process)
	return u
}

// runUntilTold starts a call that finishes once the file "go" is there.
func (u up) runUntilTold(t *testing.T) {
	t.Helper()
	connect(t, u.url).publish("stevedore.call.default.shell",
		`{"id":"long","args":{"command":"touch begun; until [ -e go ]; do sleep 0.02; done; touch finished"}}`)
	await(t, u.process, "the call to begin", func() bool {
		_, err := os.Stat(filepath.Join(u.workspace, "begun"))
		return err == nil
	})
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func (p *process) awaitStopping(t *testing.T) {
	t.Helper()
	await(t, p, "it to say that it stops", func() bool { return strings.Contains(p.stderr.String(), "stopping") })
}

// await waits for what a process does, as long as it runs.
func await(t *testing.T, p *process, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.exited:
			t.Fatalf("waited for %s, and it ended: %v\n%s", what, p.err, p.stderr)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s\n%s", what, p.stderr)
		}
	}
}
