package sandbox

import (
	"errors"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/stevedore-bus/stevedore/tools/internal/job"
)

// supervise is Supervise on Windows. It is built and vetted, but not tested there.
func (s *Sandbox) supervise(cmd *exec.Cmd, grace time.Duration, started func()) (killed bool, err error) {
	group, err := job.New()
	if err != nil {
		return false, err
	}
	defer windows.CloseHandle(group)
	// It cannot start another process before it is in the job.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
	var cancelled atomic.Bool
	cmd.WaitDelay = grace
	if cmd.Cancel != nil { // made with a context
		cmd.Cancel = func() error {
			cancelled.Store(true)
			return windows.TerminateJobObject(group, 1)
		}
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	started()
	if err := job.Resume(group, cmd.Process.Pid); err != nil {
		err = errors.Join(err, cmd.Process.Kill())
		_, waitErr := cmd.Process.Wait() // cmd.Wait would make it look as if the command had run
		return false, errors.Join(err, waitErr)
	}
	err = cmd.Wait()
	err = errors.Join(err, windows.TerminateJobObject(group, 1))
	return cancelled.Load(), err
}
