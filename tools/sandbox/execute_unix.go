//go:build unix

package sandbox

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Supervise starts a Contained command, calls started, waits for its end, and kills all processes
// that it left behind. When the context of Command ends, the command gets SIGTERM, and after the
// grace period SIGKILL; then killed is set.
//
//   - The command has a process group, which is killed.
//   - On Linux, no process survives the command or this process: the kernel kills a PID namespace
//     together with its first process. If the system has none for us, a helper beside the command
//     is the parent of all processes that lost theirs, and kills them when the command or this
//     process has ended. A command can kill that helper, too.
//   - Elsewhere, a process that leaves the group (setsid) survives.
func (s *Sandbox) Supervise(cmd *exec.Cmd, grace time.Duration, started func()) (killed bool, err error) {
	// The kernel kills the command when the thread that forked ends, so keep that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	release := func() {}
	cmd.WaitDelay = grace
	if s.platform.reaps() { // when release closes the pipe, the helper kills all processes of the command
		r, w, err := os.Pipe()
		if err != nil {
			return false, err
		}
		release = sync.OnceFunc(func() { _ = w.Close() })
		cmd.ExtraFiles = []*os.File{r}
		cmd.WaitDelay = min(2*grace, grace+5*time.Second)
	}
	defer release()
	var cancelled atomic.Bool
	if cmd.Cancel != nil { // made with a context
		cmd.Cancel = func() error {
			cancelled.Store(true)
			time.AfterFunc(grace, release)
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		}
	}
	err = cmd.Start()
	for _, f := range cmd.ExtraFiles {
		_ = f.Close()
	}
	if err != nil {
		return false, err
	}
	started()
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return cancelled.Load(), err
}
