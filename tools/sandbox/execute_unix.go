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

// supervise is Supervise on Unix.
func (s *Sandbox) supervise(cmd *exec.Cmd, grace time.Duration, started func()) (killed bool, err error) {
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
