//go:build unix && !linux

package builtin

import (
	"context"
	"os/exec"
	"sync/atomic"
	"syscall"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// container runs a command in a process group, which run kills when the command has
// ended, timed out or was cancelled. A process that leaves the group (setsid) survives
// that, and any process survives a kill -9 of the worker.
type container struct{}

func newContainer() container { return container{} }

func containerIn(*sandbox.Sandbox) container { return container{} }

func (container) reaps() bool { return false }

func (container) wrap(argv []string) []string { return argv }

func (container) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// run starts cmd, calls started, waits for the end of cmd, kills the rest of its
// group, and reports whether the command was killed because its context ended.
func (container) run(_ context.Context, cmd *exec.Cmd, started func()) (killed bool, err error) {
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
