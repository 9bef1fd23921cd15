//go:build unix && !linux

package command

import (
	"os/exec"
	"syscall"
)

// contain gives the program a process group.
func contain(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func lockThread() (unlock func()) { return func() {} }

// wait waits for the end of the program and kills the rest of its group.
func wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	kill(cmd)
	return err
}

func terminate(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func kill(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
