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
)

// A closed terminal stops the worker like SIGTERM: the running call gets the grace
// time, also if the signal arrives twice.
func TestHangupLetsCallsFinish(t *testing.T) {
	// A process that catches the signal does not pass "ignored" to its children, so the
	// test also works under nohup.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	u := startUp(t)
	u.runUntilFile(t)
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

// Under nohup, the worker ignores a hangup.
func TestNohupOutlivesHangup(t *testing.T) {
	t.Parallel()
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

// On the first interrupt, the worker logs what it waits for and how long. The second
// interrupt ends the process, even if a shell told it to ignore interrupts.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	u := startUpBy(t, `trap "" INT; exec "$@"`, "--grace", "1h")
	u.runUntilFile(t)
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

// startUpBy starts "stevedore up" through a shell script that executes its arguments.
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

// runUntilFile starts a call that finishes when the file "go" exists.
func (u up) runUntilFile(t *testing.T) {
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
