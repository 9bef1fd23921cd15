package enter

import (
	"os/exec"
	"syscall"
	"testing"
)

// How a command ended is known only from its own status, not from that of another child, and
// without a status it did not succeed.
func TestWaitFor(t *testing.T) {
	start := func(script string) int {
		cmd := exec.Command("sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd.Process.Pid
	}
	start("exit 3")
	if end, err := waitFor(start("exit 7")); err != nil || end.ExitStatus() != 7 {
		t.Errorf("got status %d, %v, want 7", end.ExitStatus(), err)
	}
	if end, err := waitFor(start("kill -9 $$")); err != nil || end.Signal() != syscall.SIGKILL {
		t.Errorf("got %v, %v, want SIGKILL", end, err)
	}
	if end, err := waitFor(1 << 30); err != syscall.ECHILD {
		t.Errorf("a child that does not exist: status %d, %v, want %v", end.ExitStatus(), err, syscall.ECHILD)
	}
}
