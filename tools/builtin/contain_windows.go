package builtin

import (
	"context"
	"errors"
	"os/exec"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/stevedore-bus/stevedore/tools/internal/job"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// container runs a command in a job object, which ends with the command and with the
// worker: no process of the command survives either. This code is built and
// vetted for Windows, but not tested there.
type container struct{}

func newContainer() container { return container{} }

func containerIn(*sandbox.Sandbox) container { return container{} }

func (container) reaps() bool { return false }

func (container) wrap(argv []string) []string { return argv }

// prepare has the command start suspended, so that it cannot start another process
// before it is in the job.
func (container) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
}

// run starts cmd, calls started, waits for the end of cmd, terminates the rest of its
// job, and reports whether the command was killed because its context ended.
func (container) run(_ context.Context, cmd *exec.Cmd, started func()) (killed bool, err error) {
	group, err := job.New()
	if err != nil {
		return false, err
	}
	defer windows.CloseHandle(group)
	var cancelled atomic.Bool
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
	return cancelled.Load(), errors.Join(err, windows.TerminateJobObject(group, 1))
}
