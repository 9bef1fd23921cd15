//go:build unix && !linux

package builtin

import (
	"os/exec"
	"sync/atomic"
	"syscall"
)

// container keeps a command and all that it starts together in a process
// group, which is killed when the command ended, timed out or was cancelled. A
// process that leaves the group (setsid), and any process after a kill -9 of
// the worker, survives: only Linux has the means against that.
type container struct{}

func newContainer(ShellConfig) container { return container{} }

func (container) wrap(argv []string) []string { return argv }

func (container) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// run starts cmd, calls started, waits for its end, kills what is left of its
// group, and says whether the command was killed because its context ended.
func (container) run(cmd *exec.Cmd, started func()) (killed bool, err error) {
	var cancelled atomic.Bool
	if cmd.Cancel != nil { // made with a context
		cmd.Cancel = func() error {
			cancelled.Store(true)
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		}
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	started()
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return cancelled.Load(), err
}
